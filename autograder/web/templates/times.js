for (const time of document.querySelectorAll("time[datetime]")) {
  const moment = new Date(time.dateTime);
  if (Number.isNaN(moment.getTime())) continue;
  const shape = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  const here = new Intl.DateTimeFormat(document.documentElement.lang === "en" ? "en-GB" : document.documentElement.lang, shape).format(moment);
  if (time.classList.contains("ag-also")) {
    time.textContent = `(${here})`;
    time.hidden = false;
  } else {
    time.title = time.textContent;
    time.textContent = here;
  }
}
