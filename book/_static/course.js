// Where a Jupyter Server serves the site under .../book/, its JupyterLab is next door: show the links that open a lab there.
document.addEventListener("DOMContentLoaded", () => {
  const site = new URL(document.documentElement.dataset.content_root || "./", window.location.href);
  if (!/^https?:$/.test(site.protocol) || !site.pathname.endsWith("/book/")) return;
  for (const link of document.querySelectorAll("a.open-in-jupyterlab")) {
    link.href = new URL(`../lab/tree/${link.dataset.notebook}`, site).href;
    link.hidden = false;
  }
});
