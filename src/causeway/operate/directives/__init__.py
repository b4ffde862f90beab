"""Administrative requests of a running mirror: pause, resume, restart, throttle, step down."""

from causeway.operate.directives.act import (
    DirectiveOutcome,
    DirectiveRequest,
    LinkRequests,
    outcome_json,
    pause,
    restart,
    resume,
    step_down,
    throttle,
)
from causeway.operate.directives.refill import COPIED_PER_S, Refill, refill, refill_json
from causeway.operate.directives.scopes import (
    MOST_TEXT,
    WAIT_S,
    Asked,
    Wanted,
    choose,
    choose_answering,
    choose_one,
    current_user,
    sharers_of,
)
