# SPDX-License-Identifier: BSD-2-Clause
"""Tables of text for a terminal and in Markdown, and how figures are written in them."""


def number(value):
    """Three or four digits that matter, thousands set apart from 100 000 on."""
    if abs(value) >= 100000:
        return f'{value:,.0f}'.replace(',', ' ')
    if abs(value) >= 100:
        return f'{value:.0f}'
    return f'{value:.3g}'


def markdown(titles, rows, right=()):
    """The columns whose numbers are in `right` are set to the right."""
    widths = [max(len(row[i]) for row in [titles, *rows]) for i in range(len(titles))]

    def line(cells):
        set_cells = [cell.rjust(width) if i in right else cell.ljust(width)
                     for i, (cell, width) in enumerate(zip(cells, widths))]
        return f'| {" | ".join(set_cells)} |'

    rule = '|'.join('-' * (width + 1) + (':' if i in right else '-') for i, width in enumerate(widths))
    return '\n'.join([line(titles), f'|{rule}|', *(line(row) for row in rows)])
