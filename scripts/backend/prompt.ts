import { tokenizer } from "./tokenizer.ts";
import { answerToken, beginToken, type Token } from "./vocabulary.ts";

/** A message of a chat, its content already one text. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/** The tokens of a chat: a line for each message, then the place where the answer starts. */
export function chatPrompt(messages: readonly ChatMessage[]): Token[] {
  const text = messages.map(({ role, content }) => `${role}: ${content}\n`).join("");
  return [beginToken, ...tokenizer.encode(text), answerToken];
}

/** The tokens of a text to go on from. */
export function completionPrompt(text: string): Token[] {
  return [beginToken, ...tokenizer.encode(text)];
}
