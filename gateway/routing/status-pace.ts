/**
 * Least ms between two statuses of one provider that are looked at, and after which a request looks again that only a newer status can
 * help: a status wakes nobody in line, as a crowd of them would keep the process busy with waking.
 */
export const statusPaceMs = 250;
