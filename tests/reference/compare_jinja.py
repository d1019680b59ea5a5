#!/usr/bin/env python3
"""Compares Longspan's Jinja with the environment in which the Python package `transformers` renders chat templates.

    compare_jinja.py build/bench/jinja [--rounds 3000] [--seed 1]
    compare_jinja.py --store

Renders a list of templates, then random ones, with both. Both must give the same text or both must refuse; templates that Longspan does not
support may differ and are counted. Prints each difference and exits with 1 if there is any. `ninja -C build bench_jinja` builds the
program; this script is run by hand. --store writes the reference's texts to jinja/cases.json, which tests/jinja/test_jinja.c reads.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

VARIABLES = {
    "s": "Hello, World", "t": "  white \t\nspace ", "e": "", "u": "ßtraße ΟΔΟΣ ŉ İ ǆ é 😀\u200b", "n": 7, "m": -3, "f": 2.5, "z": 0, "g": 1e22,
    "b": True, "x": None, "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"k": 1, "items": 2, "B": "x"}, "q": [],
    "rows": [{"role": "user", "n": 2, "c": {"d": "x"}}, {"role": "Assistant", "n": 1, "c": {"d": "y"}}, {"role": "tool", "n": 3}],
    "quote": "it's \"q\" \\ \n\x07\x7f\u2028", "tag": "<|im_end|>",
}
NAMES = list(VARIABLES) + ["missing"]

LISTED = r"""
{{ s }}|{{ t }}|{{ x }}|{{ b }}|{{ missing }}|{{ l }}|{{ d }}|{{ w }}|{{ rows }}
{{ 1 + 2 * 3 ** 2 // 4 % 5 - -6 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 10 ** 3 }}
{{ 1.0 }} {{ 1e16 }} {{ 123456789012345680.0 }} {{ 1e-5 }} {{ 0.0001 }} {{ 3.14 }} {{ 1e100 }} {{ 0.1 + 0.2 }} {{ 100.0 }} {{ 5e-324 }}
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_0.5_0 }} {{ 1e3 }}
{{ 'a' 'b' "c" }} {{ '\x41\u00e9\n\t\\\'\101' }} {{ '\q' }} {{ "\U0001F600" }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ none == none }} {{ missing == missing }}
{{ 'a' in 'abc' }} {{ 4 not in l }} {{ 'k' in d }} {{ 'x' in missing }} {{ not b }} {{ not not e }}
{{ s or 'q' }} {{ e or 'q' }} {{ e and s }} {{ b and s }} {{ 'y' if n > 3 else 'n' }} {{ 'y' if z }}
{{ s ~ n ~ f ~ x ~ l }} {{ 'a' * 3 }} {{ 2 * 'ab' }} {{ [0] * 3 }} {{ (1,) * 2 }} {{ 'ab' + 'cd' }} {{ l + [4] }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::2] }} {{ s[-3:] }} {{ s[5:1] }} {{ l[1:] }} {{ l[::-1] }} {{ s[10:2:-3] }} {{ l[100:] }} {{ s[:-100] }}
{{ d.k }} {{ d['items'] }} {{ d.B }} {{ d['zz'] }} {{ d.get('zz') }} {{ d.get('zz', 3) }} {{ rows[0].role }} {{ rows[0]['c'].d }} {{ rows.0.role }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.keys() | list }} {{ d.items() | list }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for r in rows if r.n > 1 %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ r.role }}{% else %}none{% endfor %}
{% for r in q %}x{% else %}none{% endfor %}
{% for r in l %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a','b') }}{{ loop.changed(r > 1) }} {% endfor %}
{% for r in l %}{% if r == 1 %}{% continue %}{% endif %}{{ r }}{% if r == 2 %}{% break %}{% endif %}{% endfor %}
{% set ns = namespace(a=1, b='x') %}{% for r in l %}{% set ns.a = ns.a + r %}{% endfor %}{{ ns.a }}{{ ns.b }}
{% set a = 1 %}{% for r in l %}{% set a = a + r %}{{ a }} {% endfor %}{{ a }}
{% set a, c = 1, 2 %}{{ a }}{{ c }}{% set (a, c) = l[:2] %}{{ a }}{{ c }}
{% set text %}  in {{ n }} {% endset %}[{{ text }}]{% set up | upper %}ab{{ s }}{% endset %}{{ up }}
{% macro m(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=5, c=6) }}{{ m() }}
{% macro deep(k) %}{% if k > 0 %}{{ k }}{{ deep(k - 1) }}{% endif %}{% endmacro %}{{ deep(5) }}
{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}in{{ n }}{% endcall %}
{% macro box2() %}[{{ caller(3) }}]{% endmacro %}{% call(v) box2() %}in{{ v }}{% endcall %}
{% macro box() %}[{{ caller() }}]{% endmacro %}{% macro plain() %}x{% endmacro %}{{ plain() }}{% call plain() %}in{% endcall %}
{% macro asks() %}{{ caller is defined }}{% endmacro %}{{ asks() }}|{% call asks() %}in{% endcall %}
{% macro outer() %}{% macro inner() %}{{ caller is defined }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}|{% call outer() %}in{% endcall %}
{% macro sets() %}{% set caller = 1 %}{{ caller }}{% endmacro %}{{ sets() }}
{% macro sets() %}{% set caller = 1 %}{{ caller }}{% endmacro %}{% call sets() %}in{% endcall %}
{% macro given(caller=3) %}{{ caller }}{% endmacro %}{{ given() }}
{% macro given(caller=3) %}{{ caller() }}{% endmacro %}{% call given() %}in{% endcall %}
{% macro field() %}{{ d.caller }}{% endmacro %}{% call field() %}in{% endcall %}
{% set caller = 5 %}{% macro hides() %}{{ caller }}{% endmacro %}[{{ hides() }}]
{% macro box() %}{{ caller() }}{% endmacro %}{{ box() }}
{% macro some() %}{% for r in l if caller %}{{ r }}{% endfor %}{% endmacro %}{% call some() %}in{% endcall %}
{% macro one(k) %}{{ k }}{% endmacro %}{{ one(1, caller=2) }}
{% macro two(k) %}{{ k }}{{ caller }}{% endmacro %}{{ two(1, caller=2) }}
{% filter upper %}ab{{ s }}{% endfilter %}{% filter trim | title %}  some words {% endfilter %}
{% with a = 1, c = n %}{{ a }}{{ c }}{% endwith %}{{ a }}
{% raw %}{{ x }}{% y %}{% endraw %}{# comment {{ x }} #}z
{%- if b -%}  yes  {%- elif z %}  e {%- else -%} no {%- endif -%}
{% generation %}abc{{ s }}{% endgeneration %}
{{ s | upper }} {{ s | lower }} {{ s | title }} {{ 'a-b (c) d\'e' | title }} {{ 'hELLO wORLD' | capitalize }} {{ u | upper }} {{ u | lower }} {{ u | title }} {{ u | capitalize }}
{{ u.upper() }} {{ u.lower() }} {{ u.title() }} {{ u.capitalize() }} {{ "they're bill's" .title() }}
{{ t | trim }}| {{ 'xxaxx' | trim('x') }} {{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}| {{ 'abcab'.strip('ab') }}
{{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }} {{ s.replace('o', '') }} {{ 'aaa'.replace('', '-') }} {{ 12 | replace(1, 3) }}
{{ 'a,b,,c'.split(',') }} {{ 'a,b,,c'.split(',', 1) }} {{ ' a  b c '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }}
{{ 'a</think>b</think>c'.split('</think>')[-1] }} {{ s.split('</think>')[0] }} {{ 'k=v'.partition('=') }} {{ 'kv'.rpartition('=') }} {{ 'a=b=c'.rpartition('=') }}
{{ 'a\nb\r\nc\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ ', '.join(w) }} {{ '-'.join('abc') }}
{{ s.startswith('Hell') }} {{ s.startswith(('x', 'H')) }} {{ s.endswith('ld') }} {{ s.startswith('lo', 3) }} {{ s.removeprefix('Hello') }} {{ s.removesuffix('ld') }}
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.count('l') }} {{ s.index('W') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ s.find('o', 5) }}
{{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'ab'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'Ab'.islower() }} {{ 'AB1'.isupper() }} {{ 'a'.isascii() }}
{{ 'ab'.center(7, '*') }} {{ 'abc'.center(6, '*') }} {{ 'ab'.ljust(4) }}|{{ 'ab'.rjust(4) }} {{ 'ab' | center(9) }}|
{{ l | first }} {{ l | last }} {{ q | first }} {{ q | last }} {{ l | length }} {{ s | length }} {{ d | count }} {{ missing | length }} {{ l | sum }} {{ rows | sum('n') }}
{{ l | sort }} {{ w | sort }} {{ w | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ rows | sort(attribute='n') | map(attribute='n') | list }}
{{ l | join }} {{ w | join(', ') }} {{ rows | join('|', attribute='role') }} {{ l | reverse | list }} {{ s | reverse }} {{ s | list }} {{ d | list }}
{{ rows | map(attribute='role') | list }} {{ rows | map(attribute='zz', default='?') | list }} {{ w | map('upper') | join }} {{ rows | map(attribute='c.d') | list }}
{{ rows | selectattr('role', 'eq', 'user') | list }} {{ rows | selectattr('role', 'equalto', 'tool') | list | length }} {{ rows | rejectattr('c') | list }} {{ l | select('odd') | list }} {{ l | reject('gt', 1) | list }} {{ [0, 1, ''] | select | list }}
{{ rows | selectattr('c.d', 'defined') | map(attribute='n') | list }} {{ w | unique | list }} {{ ['a','A','b'] | unique | list }} {{ l | min }} {{ w | max }} {{ rows | max(attribute='n') }}
{{ d | dictsort }} {{ d | dictsort(by='value') }} {{ {'b': 1, 'a': 2} | dictsort(reverse=true) }} {{ {'b': 1, 'a': 2} | items | list }} {{ missing | items | list }}
{{ l | batch(2) | list }} {{ l | batch(2, 'x') | list }}
{{ missing | default('d') }} {{ e | default('d') }} {{ e | default('d', true) }} {{ x | d('y', boolean=true) }} {{ missing | d }}|
{{ s | tojson }} {{ d | tojson }} {{ rows | tojson }} {{ u | tojson }} {{ quote | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ [1.0, 1e22, none, true, f] | tojson }}
{{ rows | tojson(indent=2) }} {{ d | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': [] , 'c': {}} | tojson(indent=4, sort_keys=true) }} {{ {1: 2, none: 3, true: 4} | tojson }} {{ q | tojson(indent=1) }} {{ d | tojson(indent='--') }}
{{ quote }} {{ [quote] }} {{ ["it's", 'q"', 'both\'"', '\x00\xa0\u200b'] }} {{ [u] }} {{ (1,) }} {{ () }} {{ {} }} {{ [] }} {{ [none, 1.0, -0.0] }} {{ [missing] }}
{{ '42' | int }} {{ 'x' | int }} {{ '4.7' | int }} {{ 4.7 | int }} {{ -4.7 | int }} {{ 'x' | int(5) }} {{ ' 12 ' | int }} {{ none | int }} {{ '1_0' | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ n | float }} {{ '1e3' | float }} {{ 'nan' | float }} {{ '' | int }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 42.55 | round(1, 'ceil') }} {{ 5 | round }} {{ -3 | abs }} {{ -2.5 | abs }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent('> ', blank=true) }}|{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11, false, '...', 0) }} {{ 'a b  c-d' | wordcount }}
{{ '%s and %d, %.2f, %5d|%-5d|%05.1f %x %%' | format('a', 3, 2.5, 42, 42, 3.14159, 255) }} {{ '%s' % 3 }} {{ '%s-%s' % (1, 'b') }} {{ '%r' % 'a' }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ missing is defined }} {{ s is defined }} {{ missing is undefined }} {{ x is none }} {{ x is not none }} {{ s is string }} {{ d is mapping }} {{ l is sequence }} {{ l is iterable }} {{ n is number }} {{ f is float }} {{ n is integer }} {{ b is integer }} {{ b is boolean }} {{ b is true }} {{ z is false }}
{{ s is mapping }} {{ s is iterable }} {{ s is sequence }} {{ d is sequence }} {{ missing is iterable }} {{ missing is sequence }} {{ x is iterable }} {{ s is lower }} {{ 'AB' is upper }} {{ n is gt 3 }} {{ n is eq(7) }} {{ n is in l }} {{ 1 is in l }} {{ x is sameas none }} {{ range is callable }} {{ s is callable }}
{{ range(5) | list }} {{ range(2, 9, 3) | list }} {{ range(5, 0, -2) | list }} {{ range(3) }} {{ range(3)[1] }} {{ range(10)[2:4] | list }} {{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('a', 1)]) }}
{{ missing.attr }}
{{ missing() }}
{{ missing + 1 }}
{{ 'a' + 1 }}
{{ l.append(4) }}
{{ d.update({'a': 1}) }}
{{ raise_exception('no ' ~ s) }}
{{ 1 / 0 }}
{{ l['a'] }}|{{ s.nothing }}|{{ d.nothing }}|{{ n.nothing }}
{{ d.nothing.more }}
{{ l | map('nothing') }}
{{ l | first | upper }} {{ none | upper }} {{ none | trim }} {{ 5 | string + 'a' }} {{ true | string }}
{% if missing %}y{% else %}n{% endif %}{% if not missing %}y{% endif %}{% if l | selectattr('x') %}gen{% endif %}
{% set g = l | select('odd') %}{{ g | list }}{{ g | list }}
{{ l | map('string') | join('+') }} {{ (l | map('string')) | first }} {{ w | map('length') | sum }} {{ [[1, 2], [3]] | map('first') | list }} {{ [[1, 2], [3]] | sum(start=[]) }}
{{- s -}}   x   {{- s }}
   {% if b %}
line
   {% endif %}
   {{ s }}
   {#- c -#}   y
{%+ if b %} kept {%+ endif %}
{{ {'a': {'b': [1, {'c': 2}]}}.a.b[1].c }} {{ ('x' if false else 'y') ~ 'z' }} {{ -n }} {{ +n }} {{ -n ** 2 }} {{ 2 ** 3 ** 2 }} {{ -l | length }}
{{ n | string | length }} {{ -3 | abs }} {{ s.split(', ')[0].upper() | lower }} {{ (n, m)[1] }} {{ [n, m] | max }} {{ not n == 7 }} {{ n == 7 and m == -3 or false }}
{% for a, (c, e2) in [(1, (2, 3))] %}{{ a }}{{ c }}{{ e2 }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'abc' %}{{ c }}.{% endfor %}
{% for a in l %}{% for c in w %}{{ loop.index }}{{ c }}{% endfor %}{{ loop.index }}{% endfor %}
{{ strftime_now('%d %b %Y') | length }} {{ [1, 'a', none] | tojson | length }} {{ "a" "b" ~ 'c' }}
{% if n is defined and n is not none and n > 3 %}ok{% endif %}{{ 'a' is string and 'b' }} {{ rows[-1].role }} {{ rows[:-1] | length }} {{ rows[9] is defined }}
{% set ns = namespace(x=none) %}{% if ns.x is none %}{% set ns.x = {'a': 1} %}{% endif %}{{ ns.x.a }} {{ ns.y is defined }}
{% set ns = namespace() %}{% set ns.items = [1] %}{{ ns.items + [2] }} {% set d2 = dict(d, z=9) %}{{ d2 }} {{ d.copy() }} {{ d.__class__ }}|{{ s.__len__ }}|
{{ 'a' if b else missing.x }} {{ missing.x if z else 'ok' }} {{ (missing or {}).x }}| {{ d | length > 2 }} {{ s[:5] == 'Hello' }} {{ s[0:5] + '!' }}
{% macro a() %}{{ v }}{% endmacro %}{% set v = 3 %}{{ a() }}{% for i in l %}{% set v = i %}{{ a() }}{% endfor %}
{% macro p(x) -%} {{ x }} {%- endmacro %}{{ p('q') }}{{ p }}
{%- set x2 %}{% for i in l %}{{ i }},{% endfor %}{% endset %}{{ x2[:-1] }}
{{ '{0}-{1}-{a}{{x}}'.format(1, 'b', a=l) }}{{ '{}{}'.format(s, none) }}{{ none | map('x') | list }}{{ none | selectattr('a') | list }}{{ 'a' if true else s | nofilter }}
{{ w | sort | join(',') }}{{ w | list | reverse | list }} {{ l | tojson | safe }} {{ '<a>' | safe }}{{ '<a>' | safe + '<b>' }}{{ '\'&"' + ('<a>' | safe) }}{{ '<a>' | safe ~ '<b>' }} {{ s | trim | length }} {{ s | float(1.5) }}
""".strip("\n").split("\n")
WHOLE = ["a\r\nb{{ s }}\r\n  {% if b %}\r\n c\r\n{% endif %}\r\n", "x\n", "x\n\n", "\n{% if b %}\n\n y{% endif %}\n\n", "{{ s }}\n\n\n{{- s }}", "  {# c #}  \n z",
         "   {%- if b %}\n  q\n  {%- endif %}\n", "{% if b -%}\n  q\n{%- endif +%}\n z", "{% raw %}\n a {{ }}\n{% endraw %}\n b", "a {%- raw -%}  b  {%- endraw -%}  c",
         "{% for i in l -%}\n   {{ i }}\n{% endfor %}end", "\t{% set a = 1 %}  \n{{ a }}", "{{ '{{' }}{{ '}}' }}{{ {'a':{'b':1}}}}", "a\rb\u2028c"]


class Maker:
    """Random expressions, most of them of the right types."""

    def __init__(self, rng):
        self.rng = rng

    def one(self, *choices):
        return self.rng.choice(choices)

    def number(self, depth):
        if depth <= 0:
            return self.one("n", "m", "f", "z", "1", "2", "3", "10", "0.5", "-1")
        a, c = self.number(depth - 1), self.number(depth - 1)
        return self.one(f"({a} {self.one('+', '-', '*', '//', '%', '/')} {c})", f"{self.sequence(depth - 1)} | length", f"{self.text(depth - 1)}.find({self.text(0)})",
                        f"({a} | abs)", f"({self.text(depth - 1)} | int)", f"({a} | round({self.one('', '1', '2')}))", f"(l | {self.one('sum', 'min', 'max', 'first', 'last')})",
                        f"{self.text(depth - 1)}.count({self.text(0)})", f"loop.{self.one('index', 'index0', 'length')}" if depth < 2 else a)

    def text(self, depth):
        if depth <= 0:
            return self.one("s", "t", "e", "u", "quote", "tag", "'a'", "'lo'", "' '", "''", "'Ab c'", "'<x>'")
        a, c = self.text(depth - 1), self.text(depth - 1)
        i, k = self.rng.randrange(-6, 7), self.rng.randrange(-6, 7)
        return self.one(f"({a} + {c})", f"({a} ~ {self.any(depth - 1)})", f"({a} | {self.one('trim', 'upper', 'lower', 'title', 'capitalize', 'reverse', 'string')})",
                        f"{a}[{self.one('', i)}:{self.one('', k)}{self.one('', ':', ':2', ':-1', ':-2')}]", f"{a}.{self.one('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize')}()",
                        f"{a}.strip({c})", f"({a} | replace({self.text(0)}, {c}))", f"({self.sequence(depth - 1)} | join({a}))", f"({a} * {self.rng.randrange(4)})",
                        f"({a} if {self.truth(depth - 1)} else {c})", f"({self.any(depth - 1)} | tojson)", f"({self.any(depth - 1)} | string)",
                        f"{a}.split({self.one('', self.text(0))})[{self.one(0, -1)}]", f"({a} | default({c}, true))", f"({a} | indent(2, {self.one('true', 'false')}))",
                        f"({a} | truncate({self.rng.randrange(3, 12)}, {self.one('true', 'false')}, '..', 0))", f"({a} | center({self.rng.randrange(12)}))")

    def sequence(self, depth):
        if depth <= 0:
            return self.one("l", "w", "q", "rows", "[1, 'a', none]", "(1, 2)", "[]", "range(4)", "d", "s")
        a = self.sequence(depth - 1)
        return self.one(f"({a} | list)", f"({a} | reverse | list)", f"[{self.any(depth - 1)}, {self.any(depth - 1)}]", f"({a} | map('string') | list)",
                        f"(w | sort{self.one('', '(reverse=true)', '(case_sensitive=true)')})", f"{self.text(depth - 1)}.split({self.text(0)})", f"({a} | select('{self.one('string', 'defined', 'none', 'number')}') | list)",
                        f"({a} | list)[{self.rng.randrange(-3, 4)}:]", f"(rows | {self.one('selectattr', 'rejectattr')}('role', 'eq', 'user') | list)", f"({a} | list + l)",
                        f"(rows | map(attribute='{self.one('role', 'n', 'c', 'c.d')}') | list)", f"(d | {self.one('dictsort', 'items | list')})", f"(w | unique | list)", f"({a} | batch(2) | list)")

    def truth(self, depth):
        if depth <= 0:
            return self.one("b", "e", "s", "z", "x", "q", "missing", "true", "false")
        a, c = self.any(depth - 1), self.any(depth - 1)
        return self.one(f"({a} == {c})", f"({a} != {c})", f"({self.number(depth - 1)} {self.one('<', '<=', '>', '>=')} {self.number(depth - 1)})", f"(not {a})",
                        f"({a} is {self.one('', 'not ')}{self.one('defined', 'none', 'string', 'number', 'mapping', 'sequence', 'iterable', 'boolean', 'integer', 'float', 'true', 'false')})",
                        f"({a} {self.one('and', 'or')} {c})", f"({self.text(depth - 1)} in {self.text(depth - 1)})", f"({a} {self.one('in', 'not in')} {self.sequence(depth - 1)})",
                        f"{self.text(depth - 1)}.{self.one('startswith', 'endswith')}({self.text(0)})", f"({self.text(depth - 1)} < {self.text(depth - 1)})",
                        f"{self.text(depth - 1)}.{self.one('isdigit', 'isalpha', 'isspace', 'isupper', 'islower', 'isalnum')}()")

    def any(self, depth):
        return self.one(self.number, self.text, self.text, self.sequence, self.truth)(depth) if self.rng.random() < 0.95 else self.rng.choice(NAMES)

    def template(self):
        out = []
        for _ in range(self.rng.randrange(1, 4)):
            a = self.any(self.rng.randrange(4))
            sign = [self.one("", "-", ""), self.one("", "-", "")]
            out.append(self.one(f"{{{{{sign[0]} {a} {sign[1]}}}}}", f"{{%{sign[0]} set v = {a} {sign[1]}%}} {{{{ v }}}}",
                                f"{{%{sign[0]} if {self.truth(2)} {sign[1]}%}} {{{{ {a} }}}}\n{{% else %}}\n  no {{%- endif %}}",
                                f"\n {{%{sign[0]} for i in {self.sequence(2)} {sign[1]}%}}\n {{{{ loop.index }}}}{{{{ i }}}} {{{{ {a} }}}}\n {{% endfor %}}\n"))
            out.append(self.one("", "\n", " ", " x\n"))
        return "".join(out)


def by_reference(template):
    try:
        return {"text": _compile_jinja_template(template).render(**VARIABLES)}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def store(templates):
    """Errors are those of Python: what they say is not compared."""
    cases = [{"template": t, **{k: v if k == "text" else True for k, v in by_reference(t).items()}} for t in templates]
    out = pathlib.Path(__file__).parent / "jinja" / "cases.json"
    out.parent.mkdir(exist_ok=True)
    cases = [c for c in cases if "object at 0x" not in c.get("text", "") and "<Macro" not in c.get("text", "")]
    lines = ",\n".join(json.dumps(c) for c in cases)
    out.write_text(f'{{"variables": {json.dumps(VARIABLES)},\n"cases": [\n{lines}\n]}}\n')


def by_longspan(program, templates):
    lines = "".join(json.dumps({"template": t, "variables": VARIABLES}) + "\n" for t in templates)
    done = subprocess.run([program], input=lines, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    maker = Maker(random.Random(options.seed))
    listed = LISTED + WHOLE
    templates = listed + [maker.template() for _ in range(options.rounds)]
    if options.store:
        return store(templates[:len(listed) + 200])
    equal = refused = unsupported = different = 0
    for template, ours in zip(templates, by_longspan(options.program, templates)):
        theirs = by_reference(template)
        if ours == theirs:
            equal += 1
        elif "error" in ours and "error" in theirs:
            refused += 1
        elif "not supported" in ours.get("error", "") or "64 bits" in ours.get("error", ""):
            unsupported += 1
            if template in listed:
                print(f"not supported: {template!r}: {ours['error']}")
        elif "object at 0x" not in theirs.get("text", "") and "<Macro" not in theirs.get("text", ""):
            different += 1
            if different <= 20:
                print(f"{template!r}\n  ours   {ours}\n  theirs {theirs}")
    print(f"{len(templates)} templates: {equal} equal, {refused} refused by both, {unsupported} not supported here, {different} different")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
