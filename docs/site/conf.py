"""How Sphinx builds the site from what stage.py put together."""

from importlib import metadata

from sphinx.ext.napoleon import GoogleDocstring

project = "Windward"
author = "the Windward authors"
copyright = author
version = release = metadata.version("windward")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]

# Markdown: anchors for links, as code forges make them.
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Notebooks have no outputs in the repository: they are run here, and an error is one of the build.
nb_execution_mode = "force"
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# "What errors call it: the file's path" is a sentence, and not an attribute of that type.
GoogleDocstring._consume_inline_attribute = lambda self: ("", self._consume_to_end())

autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_numpy_docstring = False
toc_object_entries = False

# A block that does not say what it is is no code.
highlight_language = "none"

# Of commands the prompt stays behind.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .go"

html_theme = "furo"
html_title = f"Windward {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
