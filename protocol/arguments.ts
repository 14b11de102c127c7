/** A program that reads everything from environment variables was given something else. The message is one line. */
export class ArgumentError extends Error {
  override readonly name = "ArgumentError";

  constructor(args: readonly string[]) {
    super(
      `${args.join(" ")}: there are no options but --help; everything is read from environment variables, which --help lists`,
    );
  }
}

/**
 * Whether the arguments of such a program ask for its help. Throws ArgumentError for any others: who gives an option believes that it
 * counts.
 * @param args Without program and script.
 */
export function asksForHelp(args: readonly string[]): boolean {
  if (args.includes("--help") || args.includes("-h")) return true;
  if (args.length > 0) throw new ArgumentError(args);
  return false;
}
