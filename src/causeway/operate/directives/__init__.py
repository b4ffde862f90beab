"""Administrative requests of a running mirror: pause, resume, restart, throttle, step down."""

from causeway.operate.directives.act import (
    MOST_TEXT,
    WAIT_S,
    DirectiveOutcome,
    DirectiveRequest,
    all_acted,
    current_user,
    outcome_json,
    pause,
    restart,
    resume,
    step_down,
    throttle,
    wish_of,
)
from causeway.operate.directives.scopes import (
    Wanted,
    choose,
    choose_answering,
    choose_one,
    sharers_of,
)
