"""Template tags for static files."""

from django import template
from django.templatetags.static import static
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from komand import static_files

register = template.Library()


@register.simple_tag
def preload_imports(script: str) -> SafeString:
    """Return links that load all imports of a script at once, instead of one level after the other."""
    names = static_files.imported_scripts(script)
    return format_html_join("\n", '<link rel="modulepreload" href="{}">', ((static(name),) for name in names))
