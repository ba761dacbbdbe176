for (const time of document.querySelectorAll("time[datetime]")) {
  const moment = new Date(time.dateTime);
  if (Number.isNaN(moment.getTime())) continue;
  const shape = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  // Year first: a day and a month in figures are read either way round.
  const format = new Intl.DateTimeFormat(document.documentElement.lang === "zh" ? "zh-CN" : "sv-SE", shape);
  const here = format.format(moment);
  if (time.classList.contains("ag-also")) {
    time.textContent = `(${here})`;
    time.hidden = format.resolvedOptions().timeZone === time.dataset.zone;
  } else {
    time.title = time.textContent;
    time.textContent = here;
  }
}
