import { type Address, getAddress, type Hex, isAddress, isHex, size } from "viem";
import { z } from "zod";

/** A schema from the text of a variable; chain `.default(value)` or `.optional()` for a variable that may be unset. */
type Kind<T> = z.ZodType<T, string>;

/** Bounds of a number, both inclusive. */
export interface NumberBounds {
  readonly min: number;
  readonly max: number;
}

/** A schema that reads text with `parse`; undefined is refused with `rule`, which reads on from the name: "must be ...". */
function kind<T>(rule: string, parse: (text: string) => T | undefined): Kind<T> {
  return z.string({ error: rule }).transform((text, context) => {
    const value = parse(text);
    if (value === undefined) {
      context.addIssue({ code: "custom", message: rule });
      return z.NEVER;
    }
    return value;
  });
}

/** A whole number in decimal digits. */
export function integerSetting(bounds: NumberBounds): Kind<number> {
  return kind(`must be a whole number from ${bounds.min} to ${bounds.max}`, (text) => {
    const value = Number(text);
    return /^-?\d+$/.test(text) && value >= bounds.min && value <= bounds.max ? value : undefined;
  });
}

/** A decimal number, such as `0.2`. */
export function numberSetting(bounds: NumberBounds): Kind<number> {
  return kind(`must be a number from ${bounds.min} to ${bounds.max}`, (text) => {
    const value = Number(text);
    return /^-?\d+(\.\d+)?$/.test(text) && value >= bounds.min && value <= bounds.max ? value : undefined;
  });
}

/** An amount in the smallest unit of a token, or of what `unit` names, 0 to 2^96 - 1. */
export function amountSetting(unit = "the token's smallest unit"): Kind<bigint> {
  return kind(`must be a whole amount in ${unit}, in decimal digits (at most 2^96 - 1)`, (text) => {
    if (!/^\d{1,29}$/.test(text)) return undefined;
    const value = BigInt(text);
    return value < 1n << 96n ? value : undefined;
  });
}

/** `true` or `false`, also `1` or `0`. */
export function booleanSetting(): Kind<boolean> {
  return kind("must be true or false", (text) => {
    if (text === "true" || text === "1") return true;
    return text === "false" || text === "0" ? false : undefined;
  });
}

/** One of a few words. */
export function choiceSetting<const T extends string>(choices: readonly T[]): Kind<T> {
  return kind(`must be one of ${choices.join(", ")}`, (text) => choices.find((choice) => choice === text));
}

/** Any text that is not blank, at most `maxLength` characters. */
export function textSetting(maxLength = 4096): Kind<string> {
  return kind(`must be a text of 1 to ${maxLength} characters`, (text) =>
    text.length > 0 && text.length <= maxLength ? text : undefined,
  );
}

/** Words separated by commas; blanks around them fall away, at least one must be left. */
export function listSetting(): Kind<readonly string[]> {
  return kind("must be a list of words separated by commas", (text) => {
    const words = text.split(",").flatMap((word) => (word.trim() === "" ? [] : [word.trim()]));
    return words.length > 0 ? Object.freeze(words) : undefined;
  });
}

/** An absolute URL of one of the schemes, such as `https:`; kept as written. */
export function urlSetting(schemes: readonly string[] = ["http:", "https:"]): Kind<string> {
  const names = schemes.map((scheme) => `${scheme}//`).join(" or ");
  return kind(`must be a URL that starts with ${names}`, (text) => {
    const url = URL.parse(text);
    return url !== null && schemes.includes(url.protocol) && url.hostname !== "" ? text : undefined;
  });
}

/** An EVM address; returned with its checksum. A mixed-case address must carry the right one. */
export function addressSetting(): Kind<Address> {
  return kind("must be an address: 0x and 40 hexadecimal digits, in lower case or with a valid checksum", (text) =>
    isAddress(text) ? getAddress(text) : undefined,
  );
}

/** A private key: 32 bytes in hexadecimal, with or without `0x`. */
export function privateKeySetting(): Kind<Hex> {
  return kind("must be a private key: 0x and 64 hexadecimal digits", parsePrivateKey);
}

/** The private key in a text, if it is one; also used for key files. */
export function parsePrivateKey(text: string): Hex | undefined {
  const trimmed = text.trim();
  const key = trimmed.startsWith("0x") ? trimmed : `0x${trimmed}`;
  return isHex(key) && size(key) === 32 && key.length === 66 && BigInt(key) > 0n ? key : undefined;
}
