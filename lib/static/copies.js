// Opened from a folder, a page cannot make the browser save a file that a link names: it opens it.
// There the file comes as a script that lies beside the page, and is saved from memory.
(() => {
  "use strict";
  if (location.protocol !== "file:") return;
  const { content_root: root } = document.documentElement.dataset;

  window.saveCopy = (name, text, packed) => {
    const content = packed ? Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)) : text;
    const link = document.createElement("a");
    link.download = name;
    link.href = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[download]");
    if (!link || link.protocol !== "file:" || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const script = document.createElement("script");
    script.src = `${root}_static/copies/${link.download}.js`;
    script.onload = () => script.remove();
    script.onerror = () => location.assign(link.href);
    document.head.append(script);
  });
})();
