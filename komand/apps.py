from django.apps import AppConfig


class KomandConfig(AppConfig):
    name = "komand"

    def ready(self) -> None:
        from komand import checks, wiring  # noqa: F401, PLC0415

        wiring.connect()
