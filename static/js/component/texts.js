// The component's texts. A site replaces some or all of them by the property `texts`.

export const TEXTS = {
  launch: "Chat", title: "Chat", greeting: "Write a message to begin.", placeholder: "Message", send: "Send", stop: "Stop",
  attach: "Attach files", attached: "Attached", remove: "Remove", close: "Close", newChat: "New chat", messages: "Messages",
  conversation: "Conversation", composer: "New message",
  askNewChat: "Begin a new chat? This one is left.", yes: "Begin a new chat", no: "Keep this one",
  mail: "Send by mail", askMail: "Send this conversation to the address", sendMail: "Send", cancel: "Cancel", mailSent: "The conversation is on its way to {address}.",
  ended: "The last conversation has ended. This is a new one.",
  lost: "The connection was lost. It is being restored…", unreachable: "The chat is not reachable. Try again.",
  notSignedIn: "You are not signed in to this chat, or your sign-in has expired. Reload the page.",
  decideFirst: "Decide the request first.", waitsForOthers: "Your answer is sent once the other requests are answered.",
  sending: "Sending…", notSent: "Not sent", again: "Send again", tooLong: "A message can have at most {most} characters. This one has {length}.",
  you: "You:", answer: "Answer:", answers: "Answers", decision: "Decision", stopped: "Stopped.", failed: "Something went wrong. Please try again.",
  retry: "Not sent. Try again", willAnswer: "We are checking this and will answer here.",
  approved: "Allowed", denied: "Denied", expired: "Nobody decided in time", cancelled: "Withdrawn", answered: "Answered", chose: "You chose {answer}", closed: "No longer open",
};

// Return a text with its places filled in.
export function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}
