/**
 * Remembers results of a pure, costly function of a string. When full it starts over: simpler than tracking use, and what is asked for
 * often is back at once. Bounded, because the strings come from strangers.
 */
export function cached<K extends string, V>(capacity: number, compute: (key: K) => V): (key: K) => V {
  const known = new Map<K, V>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found;
    const value = compute(key);
    if (known.size >= capacity) known.clear();
    known.set(key, value);
    return value;
  };
}
