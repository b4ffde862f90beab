// Sends requests to the run. A token is kept for this tab only.

const KEY = "causeway-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function useToken(token) {
  sessionStorage.setItem(KEY, token);
}

export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = { accept: "application/json" };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.authorization = `Bearer ${token}`;
  if (method !== "GET") headers["content-type"] = "application/json";
  const answer = await fetch(`/api/v1${path}`, {
    method,
    headers,
    body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
    signal,
    cache: "no-store",
  });
  if (answer.ok) return answer.json(); // rejects where the answer breaks off
  const found = await answer.json().catch(() => null);
  throw new Refused(answer.status, found?.message ?? `HTTP ${answer.status}`);
}

/** `/topics?search=a&state=failed&state=stopped` of a map; empty values are left out. */
export function query(path, parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== "" && each != null) search.append(name, each);
    }
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}
