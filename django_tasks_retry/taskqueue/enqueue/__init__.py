"""Enqueue: a call is checked and becomes a PENDING row, and workers are notified."""

from .backlog import full_queues
from .checks import Callee, callee_of
from .discovery import app_not_installed, discovery_advice, discovery_reason, will_be_found
from .notify import CHANNEL, Notification, WakeUp, WakeUpKind, is_enqueue_heard, notify_more
from .notify import read_message, send_enqueued, send_notifications
