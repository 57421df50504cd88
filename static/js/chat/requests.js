// Requests of htmx: their headers, their errors, and the confirmation before some of them.
import { newId } from "./ids.js";

export function setUpRequests() {
  const token = document.querySelector("meta[name=csrf-token]").content;
  const { body } = document;
  body.addEventListener("htmx:configRequest", ({ detail }) => {
    detail.headers["X-CSRFToken"] = token;
    detail.headers["X-Request-Id"] = newId();
  });
  for (const name of ["htmx:responseError", "htmx:sendError"]) {
    body.addEventListener(name, (event) => {
      if (isByUser(event)) explain(event.detail.xhr, document.getElementById("note"));
    });
  }
  body.addEventListener("htmx:beforeRequest", (event) => {
    if (isByUser(event)) document.getElementById("note").textContent = "";
  });
  body.addEventListener("htmx:confirm", askFirst);
}

// Whether the user made the request, and nothing else shows its result. `data-quiet` marks what makes its requests without the user.
function isByUser({ detail, target }) {
  return detail.requestConfig.triggeringEvent?.type !== "refresh" && !target.matches(".sending, [data-quiet]");
}

// Show in an element why a request failed, and what to do.
export function explain(xhr, element) {
  const answer = xhr.responseText;
  if (xhr.status && answer && !/^\s*<!doctype/i.test(answer)) {
    htmx.swap(element, answer, { swapStyle: "innerHTML" });
    return;
  }
  element.textContent = messageFor(xhr);
  const reference = xhr.status && xhr.getResponseHeader("X-Request-Id");
  if (reference) {
    const line = document.createElement("span");
    line.className = "reference";
    line.textContent = ` Reference: ${reference}`;
    element.append(line);
  }
}

function messageFor({ status }) {
  if (!status) return "The server cannot be reached. Check the connection and send again.";
  if (status === 403) return "This page is out of date. Reload it and try again.";
  if (status === 413) return "The message is too long. Shorten it and send again.";
  if (status >= 500) return `Something went wrong on the server (${status}). Try again in a moment.`;
  return `The server refused this (${status}).`;
}

function askFirst(event) {
  const { question, issueRequest } = event.detail;
  if (!question) return;
  event.preventDefault();
  const dialog = document.getElementById("confirm");
  document.getElementById("confirm-question").textContent = question;
  dialog.returnValue = "no";
  dialog.addEventListener("close", () => dialog.returnValue === "yes" && issueRequest(true), { once: true });
  dialog.showModal();
}
