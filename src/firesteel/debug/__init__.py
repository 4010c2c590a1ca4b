"""What firesteel tells about its work: logs here, reports and explanations beside them."""

from firesteel.debug.logs import ARTIFACTS, enabled, log, set_logs

__all__ = ["ARTIFACTS", "enabled", "log", "set_logs"]
