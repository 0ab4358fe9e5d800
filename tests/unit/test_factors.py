from math import prod

import pytest

from slicewise.factors import divisors, prime_factors


@pytest.mark.parametrize("number", [*range(1, 200), 10**12, 2**31 - 1])
def test_numbers_are_the_product_of_their_factors_and_divide_by_their_divisors(number: int) -> None:
    factors, found = prime_factors(number), divisors(number)
    assert prod(factors) == number
    assert factors == sorted(factors)
    assert all(prime_factors(factor) == [factor] for factor in factors)
    assert all(number % divisor == 0 for divisor in found)
    assert len(found) == prod(factors.count(factor) + 1 for factor in set(factors))
