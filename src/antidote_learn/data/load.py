"""The way in for data: a built-in name, a file, a folder, or arrays in memory become one `Arrays`.

The readers are imported when they are needed, so that a wrong name is refused without them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from antidote_learn._types import Arrays, ImageFiles, Inputs
from antidote_learn.data.builtin import DATA, load_named
from antidote_learn.data.safety import LINES, SEPARATORS, TABLE_SUFFIXES, WORKBOOK, check_excel, check_file, check_name
from antidote_learn.data.text_forms import UNKNOWN, Note, TextForm, ignore_note

FILES = f"a file that ends in {', '.join(TABLE_SUFFIXES)} or .npz"
ACCEPTED = f"a built-in name (see `antidote list data`), {FILES}, or a folder of images by class"


def open_data(
    data: str | Path | Arrays | Sequence[Any],
    *,
    label: str | None = None,
    text: str | Sequence[str] = (),
    image: str | None = None,
    exclude: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    test: str | Path | None = None,
    root: str | Path | None = None,
    download: bool = False,
    strict: bool = False,
    form: TextForm = UNKNOWN,
    progress: Callable[[int, int | None], None] | None = None,
) -> Arrays:
    """Load the data set that ``data`` stands for.

    Args:
        data: A built-in name, a file or a folder; in Python also `Arrays` or a pair (X, y).
        label: The label column of a table.
        text: Columns of a table that hold text.
        image: The column of a table that holds paths of image files, which are then the inputs.
        exclude: Columns of a table that are not used at all.
        features: The columns of a table that are features; none for all.
        test: A table or folder to test on.
        root: The folder of the official files.
        download: Whether missing official files are fetched.
        strict: Whether unreadable images and rows without a label are an error.
        form: The form of tables in text files, as far as it is given.
        progress: Called with (done, total) while a folder is read or files are fetched.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The data is no data set; the message says why.
    """
    chosen: dict[str, Any] = {"exclude": exclude, "features": features}
    kind = data_kind(data, label=label, text=text, image=image, test=test, form=form, **chosen)
    given: Any = data  # `kind` tells its type
    if kind == "arrays":
        return given  # type: ignore[no-any-return]
    if kind == "pair":
        from antidote_learn.data.in_memory import from_arrays

        X, y = given
        return from_arrays(X, y, text=text, strict=strict, **chosen)
    if kind == "name":
        return load_named(str(data), root=root, download=download, progress=progress)
    path = _data_path(given)
    if kind == "folder":
        from antidote_learn.data.image_folders import read_folder

        arrays = read_folder(path, strict=strict, test=test, progress=progress)
        return replace(arrays, name=f"{arrays.name}/")  # the slash tells it from built-in names
    if kind == "npz":
        from antidote_learn.data.tabular import read_npz

        return read_npz(path, strict=strict)
    options: dict[str, Any] = {"label": label, "test": test, "strict": strict, "form": form}
    if image:
        from antidote_learn.data.image_tables import read_image_table

        return read_image_table(path, image, progress=progress, **options)
    from antidote_learn.data.tabular import read_table

    return read_table(path, text=text, **chosen, **options)


def data_kind(
    data: str | Path | Arrays | Sequence[Any],
    *,
    label: str | None = None,
    text: str | Sequence[str] = (),
    image: str | None = None,
    exclude: str | Sequence[str] = (),
    features: str | Sequence[str] = (),
    test: str | Path | None = None,
    form: TextForm = UNKNOWN,
) -> str:
    """The kind of some data, "arrays", "pair", "name", "folder", "npz" or "table"; nothing is read.

    Args:
        data: The data, as in `open_data`.
        label: The label column of a table.
        text: Columns of a table that hold text.
        image: The column of a table that holds paths of image files.
        exclude: Columns of a table that are not used at all.
        features: The columns of a table that are features.
        test: A table or folder to test on.
        form: The form of tables in text files, as far as it is given.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The data is no data set, or takes no such option.
    """
    columns = {"text": text, "features": features, "exclude": exclude}
    for name, named in columns.items():
        if image and named:
            first = named if isinstance(named, str) else named[0]
            raise ValueError(
                f"`image={image}` and `{name}={first}`: a run reads either images or columns, give one of them"
            )
    if isinstance(data, Arrays):
        return "arrays"
    if not isinstance(data, (str, Path)):
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            raise ValueError(f"data must be {ACCEPTED}, or a pair (X, y); received {type(data).__name__}")
        _refuse_options("a pair (X, y)", image=image, **vars(form))
        return "pair"
    name, path = str(data), _data_path(data)
    if name in DATA:
        _refuse_options(name, label=label, image=image, test=test, **columns, **vars(form))
        return "name"
    if os.path.isdir(path):
        _refuse_options(name, label=label, image=image, **columns, **vars(form))
        return "folder"
    if name.lower().endswith(".npz"):
        _refuse_options(name, label=label, image=image, test=test, **columns, **vars(form))
        check_file(path)
        return "npz"
    if name.lower().endswith(TABLE_SUFFIXES):
        check_form(name, form)
        for table in (path, *([] if test is None else [Path(test)])):
            check_file(table)
            if table.name.lower().endswith(WORKBOOK):
                check_excel()
        return "table"
    if not os.path.exists(path) and path.suffix == "":
        raise ValueError(f"there is no data {name!r}; accepted: {ACCEPTED}")
    raise ValueError(f"{name!r} is no data that can be read; accepted: {ACCEPTED}")


def open_inputs(
    data: Any,
    *,
    strings: Sequence[str] = (),
    image: str = "",
    root: str | Path | None = None,
    form: TextForm = UNKNOWN,
    note: Note = ignore_note,
) -> tuple[Inputs, list[str]]:
    """Load inputs to predict, with a name for each row.

    A built-in name gives its test part, a file or a folder all of its rows.

    Args:
        data: A built-in name, a file, a folder, or arrays in memory.
        strings: Columns of a table to read as they are written.
        image: The column of a table that holds paths of image files; empty where training had none.
        root: The folder of the official files.
        form: The form of a table in a text file, as far as it is given.
        note: Called with a sentence on what was detected of it.
    """
    if isinstance(data, (str, Path)):
        name, path = str(data), _data_path(data)
        if name in DATA:
            arrays = load_named(name, root=root)
            inputs = arrays.inputs if arrays.test_inputs is None else arrays.test_inputs
        elif os.path.isdir(path):
            inputs = _all_images(path)
        elif image and name.lower().endswith(TABLE_SUFFIXES):
            from antidote_learn.data.image_tables import read_images

            inputs = read_images(path, image, form=form, note=note)
        else:
            from antidote_learn.data.tabular import read_features

            inputs = read_features(path, strings=strings, form=form, note=note)
    else:
        inputs = data
    names = list(inputs.names) if isinstance(inputs, ImageFiles) else [str(i) for i in range(len(inputs))]
    return inputs, names


def check_out(out: str | Path, *, data: Any, test: Any = None) -> None:
    """Raise ValueError for a folder of results that lies in a file or in the data, or whose name is not UTF-8.

    In a folder of images the results would be a class of the next run.

    Args:
        out: The folder for the results.
        data: The data, as the user named it.
        test: The test data, as the user named it.
    """
    check_name(Path(out))
    place = Path(os.path.realpath(out))
    if any(path.is_file() for path in (place, *place.parents)):
        raise ValueError(f"{out} is a file, or lies in one: choose another `out`")
    for given in (data, test):
        folder = _data_path(given) if isinstance(given, (str, Path)) and given not in DATA else None
        if folder and os.path.isdir(folder) and place.is_relative_to(os.path.realpath(folder)):
            raise ValueError(f"{out} lies in the data, in {given}, and would become a class: choose another `out`")


def check_form(name: str, form: TextForm) -> None:
    """Raise ValueError where the form of a text file is given for a file of another kind."""
    if name.lower().endswith(tuple(SEPARATORS)):
        return
    useless = {**vars(form), "encoding": None} if name.lower().endswith(LINES) else vars(form)
    given = [key for key, value in useless.items() if value]
    if given:
        raise ValueError(f"{name!r} takes no `{given[0]}`: that is for files of text such as .csv")


def _data_path(data: str | Path) -> Path:
    """The path of the data; ValueError where its name is not UTF-8."""
    path = Path(os.path.expanduser(data))
    check_name(path)
    return path


def _all_images(folder: Path) -> ImageFiles:
    """All images below a folder, in whatever sub-folder they lie."""
    from antidote_learn.data.image_folders import names_below

    names = sorted(names_below(folder, folder))
    if not names:
        raise ValueError(f"{folder} holds no image: put .png or .jpg files there")
    for name in names:
        check_name(Path(name))
    return ImageFiles(folder, tuple(names), 1)


def _refuse_options(name: str, **options: Any) -> None:
    given = [key for key, value in options.items() if value]
    if given:
        raise ValueError(f"{name!r} takes no `{given[0]}`: that is for tables in files")
