// What the theme leaves out for readers with a screen reader or without a mouse.
addEventListener("DOMContentLoaded", () => {
    for (const caption of document.querySelectorAll('[role="heading"]:not([aria-level])')) caption.ariaLevel = "2";
    document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
    document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
    for (const box of document.querySelectorAll("pre, .table-wrapper, .cell_output")) {
        if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
});
