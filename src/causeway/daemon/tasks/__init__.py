"""The tasks of one link's control plane, each on its own schedule, while this process leads."""

from causeway.daemon.tasks.control_plane import ControlPlane, heartbeat_task
from causeway.daemon.tasks.groups import Groups
from causeway.daemon.tasks.schedule import FILE, ScheduledTask, Tasks
