from django.apps import AppConfig


class KomandConfig(AppConfig):
    name = "komand"

    def ready(self) -> None:
        from komand import wiring  # noqa: PLC0415

        wiring.connect()
