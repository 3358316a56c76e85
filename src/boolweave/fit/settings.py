"""The parameters of a fit, and the model with which it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from boolweave.model.channel import Channel
from boolweave.model.model import Model
from boolweave.model.products import Product
from boolweave.parameters import FactorizationParameters

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from boolweave.fit.noise import Axis

# The values of the paper if nothing is learned; otherwise, learning starts from them.
PAPER_FLIP = 0.1
PAPER_PRIOR = 0.5

# The flip probabilities with which learning of the noise begins; the next one is used if no start
# finds anything with the previous one.
FLIPS = (PAPER_FLIP, 0.02, 0.004)


@dataclass(frozen=True)
class Settings:
    """The parameters of the estimator, with defaults filled in."""

    n_components: int
    product: Product = "or"
    method: Literal["auto", "max-sum", "sum-product", "paper"] = "auto"
    noise: Channel | Literal["learn", "learn-columns", "learn-rows"] = "learn"
    row_prior: ArrayLike | Literal["learn"] = "learn"
    column_prior: ArrayLike | Literal["learn"] = "learn"
    damping: float = FactorizationParameters.damping
    max_iter: int = FactorizationParameters.max_iter
    tol: float = FactorizationParameters.tol
    n_init: int = 1
    n_jobs: int | None = None
    decimation: float | None = None
    messages: Literal["auto", "uint8", "float32"] = "auto"
    max_memory: int | None = None
    first_flip: float = PAPER_FLIP  # where learning of the noise begins
    # False for one of several fits of a search: it is only compared, and neither tried again with
    # less noise nor finished with floats.
    alone: bool = True

    def learns(self, name: str) -> bool:
        """Whether `name`, "noise", "row_prior" or "column_prior", is learned."""
        value = getattr(self, name)
        return isinstance(value, str) and value.startswith("learn")

    @property
    def noise_axis(self) -> Axis | None:
        """Whether columns or rows have noise rates of their own that are learned."""
        axes: dict[object, Axis] = {"learn-columns": "columns", "learn-rows": "rows"}
        return axes.get(self.noise) if isinstance(self.noise, str) else None

    @property
    def learns_any(self) -> bool:
        """Whether anything is learned."""
        return any(self.learns(name) for name in ("noise", "row_prior", "column_prior"))

    def first_model(self) -> Model:
        """The first model: given values, and initial values for what is learned."""
        noise = self.noise
        return Model(
            n_components=self.n_components,
            channel=noise if isinstance(noise, Channel) else Channel.symmetric(self.first_flip),
            row_prior=PAPER_PRIOR if self.learns("row_prior") else self.row_prior,
            column_prior=PAPER_PRIOR if self.learns("column_prior") else self.column_prior,
            product=self.product,
        )
