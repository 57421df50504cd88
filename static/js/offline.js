// Opens the page that was wanted again when the connection is back.
document.getElementById("again").href = location.href;
addEventListener("online", () => location.reload());
setInterval(async () => {
  const answer = await fetch("/health/live", { cache: "no-store" }).catch(() => null);
  if (answer?.ok) location.reload();
}, 5000);
