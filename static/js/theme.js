// Sets the theme before the first paint, so that the page does not flash, and the time zone cookie.
(() => {
  try {
    const theme = localStorage.getItem("komand.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is unavailable: use the system's theme.
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes(`komand_zone=${zone}`)) {
    document.cookie = `komand_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  }
})();
