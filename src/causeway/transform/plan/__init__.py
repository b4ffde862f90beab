"""The driver's side of a transform: Spark analyses it, Causeway checks and rewrites the plan."""

from causeway.transform.plan.analysis import PreparedTransform, prepare
from causeway.transform.plan.rewrite import THROWS
