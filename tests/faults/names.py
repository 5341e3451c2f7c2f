"""Object names that a careless encoder loses on the way."""

ODD_NAMES = [
    "with space/and another one",
    "umlaut ü/日本/😀",
    "dots/%2e%2e/up",
    "percent/100%/25%25",
    "a+b",
    "a#b",
    "a?b=c&d",
    "key=value/part=1",
    "quotes'\"/<angle>&amp;",
    "semi;colon,comma",
    "back\\slash",
    "brackets[x]{y}(z)|^`~",
    ":colon@at$dollar!bang*star",
]
