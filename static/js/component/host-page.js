// What a visitor's message says of the page: its address, its title, and what the site gives as messageContext.
import { contextOf } from "./message-context.js";

const LONGEST = { address: 2000, title: 300, name: 60, value: 500 }; // characters
const MOST_VALUES = 20;

export async function hostPage(element) {
  if (element.getAttribute("page-context") === "false") return null;
  const { address = location.href, title = document.title, data = element.messageContext } = element.page ?? {};
  let pairs = [];
  try {
    pairs = await contextOf(data);
  } catch (error) {
    console.error("Komand: messageContext failed", error); // the message is sent without it
  }
  const short = pairs.slice(0, MOST_VALUES).map(({ description, value }) => [description.slice(0, LONGEST.name), value.slice(0, LONGEST.value)]);
  return { address: address.split("#")[0].slice(0, LONGEST.address), title: title.slice(0, LONGEST.title), data: Object.fromEntries(short) };
}
