"""Whole numbers taken apart, in the time of their square root."""

from math import isqrt


def divisors(number: int) -> list[int]:
    """`divisors(12) == [1, 2, 3, 4, 6, 12]`."""
    small = [divisor for divisor in range(1, isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def prime_factors(number: int) -> list[int]:
    """`prime_factors(12) == [2, 2, 3]`."""
    factors, candidate = [], 2
    while candidate * candidate <= number:
        while number % candidate == 0:
            factors.append(candidate)
            number //= candidate
        candidate += 1
    return [*factors, number] if number > 1 else factors
