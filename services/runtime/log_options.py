"""What can be chosen about logs; apart from `logging`, so that settings are read without structlog."""

from typing import Literal

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["json", "console"]
