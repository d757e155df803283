"""Every public name has an entry in the reference, and every entry says something."""

import inspect
import re

import pytest

import jaxwarp as wp
from jaxwarp.document import reference


def test_every_public_name_is_on_a_page():
    listed = {name for names in reference.placed().values() for name in names} | reference.elsewhere()
    missing = set(reference.public_names()) - listed - set(reference.others())
    assert not missing
    assert [name for name in reference.others() if not reference.meaning(name)] == []


def test_classes_and_functions_are_not_in_the_table():
    """A new class or function needs a place in `PAGES`: the table is for types, numbers and second names."""
    known = {id(getattr(wp, name)) for names in reference.placed().values() for name in names}
    errors = {id(value) for value in vars(wp.errors).values()}
    kinds = {id(value) for value in vars(wp.types).values()}
    new = []
    for name in reference.others():
        value = getattr(wp, name)
        if getattr(value, "__module__", "") == "jaxwarp.config":  # values of settings
            continue
        if (inspect.isclass(value) or inspect.isfunction(value)) and id(value) not in known | errors | kinds:
            new.append(name)
    assert new == []


@pytest.mark.parametrize("title", reference.placed())
def test_names_on_pages_exist_and_are_documented(title):
    names = reference.placed()[title]
    assert len(names) == len(set(names))
    undocumented = [name for name in names if name != "DeviceLike" and not (getattr(wp, name).__doc__ or "").strip()]
    assert undocumented == []


def test_a_name_without_a_place_is_found(monkeypatch):
    def new_function():
        """Do something."""

    monkeypatch.setattr(wp, "new_function", new_function, raising=False)
    monkeypatch.setattr(reference, "others", list)
    with pytest.raises(AssertionError):
        test_every_public_name_is_on_a_page()


def test_pages_link_to_guides_that_exist():
    for text in reference.pages().values():
        for target in re.findall(r"\]\(\.\./(\w+\.md)\)", text):
            assert (reference.DOCS / target).is_file()


def test_every_public_method_of_arrays_is_documented():
    undocumented = [n for n, member in reference.array_members().items() if not (member.__doc__ or "").strip()]
    assert undocumented == []


@pytest.mark.parametrize("title", reference.MODULES)
def test_packages_list_what_they_have(title):
    module, _ = reference.MODULES[title]
    members = reference.members(module)
    assert members
    assert [name for name, member in members if not (member.__doc__ or "").strip()] == []
    text = reference.pages()[title]
    assert [name for name, _ in members if not re.search(rf"(^## |\.){name}$", text, re.MULTILINE)] == []
