/**
 * The journal's schema, oldest version first; each entry leads from the version before it. Plain SQL that SQLite and PostgreSQL both
 * take: no `rowid`, no `AUTOINCREMENT`, text for JSON, 0 and 1 for truth. Entries are never changed once released, only added.
 */
export const migrations: readonly (readonly string[])[] = [
  [
    `CREATE TABLE transaction_intents (
      intent_key TEXT NOT NULL PRIMARY KEY,
      sender TEXT NOT NULL,
      chain_id BIGINT NOT NULL,
      kind TEXT NOT NULL,
      recipient TEXT NOT NULL,
      data TEXT NOT NULL,
      gas TEXT,
      nonce BIGINT,
      hashes TEXT NOT NULL,
      status TEXT NOT NULL,
      outcome TEXT,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL
    )`,
    "CREATE INDEX transaction_intents_by_status ON transaction_intents (status)",
    `CREATE TABLE jobs (
      collection TEXT NOT NULL,
      id TEXT NOT NULL,
      job_id TEXT,
      status TEXT NOT NULL,
      is_open SMALLINT NOT NULL,
      document TEXT NOT NULL,
      revision BIGINT NOT NULL,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (collection, id)
    )`,
    "CREATE INDEX jobs_by_openness ON jobs (collection, is_open)",
    "CREATE INDEX jobs_by_age ON jobs (collection, updated_at)",
    "CREATE TABLE named_values (name TEXT NOT NULL PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE TABLE counters (name TEXT NOT NULL PRIMARY KEY, current BIGINT NOT NULL)",
  ],
  // Pruning goes by age.
  [
    "CREATE INDEX transaction_intents_by_age ON transaction_intents (updated_at)",
    "CREATE INDEX jobs_by_age_alone ON jobs (is_open, updated_at)",
  ],
];
