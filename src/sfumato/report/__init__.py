"""Results made readable: the command's table and one self-contained HTML page."""

from sfumato.report.html import Strip, write_report
from sfumato.report.table import render_table

__all__ = ["Strip", "render_table", "write_report"]
