"""What an undo takes back."""

from __future__ import annotations

from causeway.control.directives import THE_LINK, Directive, Kind, Scope, Standing
from causeway.model import State
from causeway.operate.cutover.undoing import _go_on, _held


def end(scope: Scope, how: State) -> Directive:
    return Directive(kind=Kind.END, scope=scope, who="anna@ops", at=1, how=how)


def test_what_is_about_to_end_goes_on_and_what_has_ended_does_not() -> None:
    orders, bills, users = Scope("orders"), Scope("bills"), Scope("users")
    found = [
        end(THE_LINK, State.PROMOTING),
        end(orders, State.PROMOTING),
        end(bills, State.PROMOTED),
        end(users, State.FAILED_OVER),
    ]
    standing = Standing().with_all((each.key, each) for each in found)
    assert [each.scope for each in _held(standing, ())] == [THE_LINK, orders]
    assert [each.scope for each in _held(standing, ["orders", "bills"])] == [orders]
    left = standing.with_all(_go_on((), standing).changes)
    assert {each.scope for each in left.by_key.values()} == {bills, users}
