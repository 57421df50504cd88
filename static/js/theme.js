// Sets the colours before anything is painted, so that the page does not flash; tells the server our time zone.
(() => {
  try {
    const theme = localStorage.getItem("komand.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be closed to us: then the system's colours it is.
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes(`komand_zone=${zone}`)) {
    document.cookie = `komand_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  }
})();
