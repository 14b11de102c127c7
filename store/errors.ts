/** Another process (or another journal of this one) holds the same data. */
export class JournalLockedError extends Error {
  override readonly name = "JournalLockedError";

  constructor(path: string) {
    super(`the journal ${path} is in use by another process: stop it, or set T4T_DATA_DIR to another directory`);
  }
}

/** The data was written by a newer version of this program. */
export class JournalVersionError extends Error {
  override readonly name = "JournalVersionError";

  constructor(path: string, found: number, known: number) {
    super(
      `the journal ${path} has schema version ${found}, but this program knows versions up to ${known}: use a newer program`,
    );
  }
}

/** A journal that was closed, or whose writer is gone. */
export class JournalClosedError extends Error {
  override readonly name = "JournalClosedError";
}

/** The file could not be read or written (disk full, permissions, damage). */
export class JournalStorageError extends Error {
  override readonly name = "JournalStorageError";
}

/** An update of an intent that does not exist. */
export class UnknownIntentError extends Error {
  override readonly name = "UnknownIntentError";

  constructor(key: string) {
    super(`the journal holds no transaction intent ${key}`);
  }
}
