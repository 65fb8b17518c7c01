"""Distributions of days on which no model is better, and of the correlation between days."""

from collections.abc import Callable

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

#: Differences of a day without any gain: mean 0. With a minus, bad days are rarer and worse than good ones.
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "Student t, 3 degrees": lambda random, shape: random.standard_t(3, shape),
    "Laplace": lambda random, shape: random.laplace(size=shape),
    "skewed to the right (exponential)": lambda random, shape: random.standard_exponential(shape) - 1,
    "-gamma(4), skewness -1": lambda random, shape: 4 - random.standard_gamma(4, shape),
    "-lognormal(0.5), skewness -1.8": lambda random, shape: np.exp(0.125) - np.exp(0.5 * random.standard_normal(shape)),
    "-exponential, skewness -2": lambda random, shape: 1 - random.standard_exponential(shape),
    "-lognormal(1), skewness -6.2": lambda random, shape: np.exp(0.5) - np.exp(random.standard_normal(shape)),
    "5% of days cost 19 times what the others gain": lambda random, shape: (
        np.where(random.random(shape) < 0.05, -9.5, 0.5) + 0.5 * random.standard_normal(shape)
    ),
}


def mix_two_kinds(bad: float, noise: float) -> Draw:
    """Draws days of two kinds: a share `bad` of them loses the total gain of the others; with noise."""
    return lambda random, shape: (
        np.where(random.random(shape) < bad, 1 - 1 / bad, 1.0) + noise * random.standard_normal(shape)
    )


def carry_over(draw: Draw, share: float) -> Draw:
    """Draws days that carry a share of the day before (an autoregression of order 1)."""

    def drawn(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        days = draw(random, shape)
        for day in range(1, shape[-1]):
            days[..., day] = share * days[..., day - 1] + np.sqrt(1 - share**2) * days[..., day]
        return days

    return drawn


def draw_spells(length: int, share: float) -> Draw:
    """Draws spells of `length` days that share a part of their variance, as in weather or a sale."""

    def drawn(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        spell = (np.arange(shape[-1]) + random.integers(length)) // length
        common = random.standard_normal((*shape[:-1], spell[-1] + 1))
        return np.sqrt(share) * common[..., spell] + np.sqrt(1 - share) * random.standard_normal(shape)

    return drawn


def draw_seasons(height: float, days: int = 91) -> Draw:
    """Draws a wave of `days` days, whose height is in standard deviations of a day."""

    def drawn(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        phase = random.random((*shape[:-1], 1))
        wave = np.sin(2 * np.pi * (np.arange(shape[-1]) / days + phase))
        return height * wave + random.standard_normal(shape)

    return drawn
