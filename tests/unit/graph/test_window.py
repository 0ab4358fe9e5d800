from slicewise.graph.window import Window


def test_a_plain_window_reads_around_its_output() -> None:
    assert Window(kernel=3, padding=1).needs(4, 8) == (3, 9)
    assert Window(kernel=3, stride=2, padding=1).needs(2, 4) == (3, 8)


def test_dilation_widens_the_reach() -> None:
    window = Window(kernel=3, dilation=2, padding=2)
    assert window.reach == 5
    assert window.needs(4, 8) == (2, 10)


def test_a_transposed_window_reads_what_writes_to_its_output() -> None:
    doubling = Window(kernel=2, stride=2, transposed=True)
    assert doubling.needs(4, 8) == (2, 4)
    assert doubling.needs(3, 8) == (1, 4)
