// Server-sent events by `fetch`, which can send the token in a header; `EventSource` cannot, and a cookie
// would go to every server of this host.

const KEPT = "qsm-token";
const AGAIN_MS = 2000;
// The server says something every 15 s.
const SILENCE_MS = 40000;

// Takes the token out of the address, so that it is in no bookmark.
export function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", location.pathname);
  }
}

export const setToken = (token) => sessionStorage.setItem(KEPT, token);
export const forgetToken = () => sessionStorage.removeItem(KEPT);

export function headers() {
  const token = sessionStorage.getItem(KEPT);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

// Watches for ever. `told(kind, data)` is called for each event; `state(word)` when the connection
// begins ("live"), ends ("lost"), the token is refused ("refused"), or there is none and it takes one ("locked").
export class Stream {
  constructor(told, state) {
    this.told = told;
    this.state = state;
    this.run();
  }

  // Begins anew, as with another token.
  restart() {
    this.abort?.abort();
  }

  async run() {
    for (;;) {
      try {
        await this.watch();
      } catch {
        // It is told below, and tried again.
      }
      clearTimeout(this.timer);
      this.state("lost");
      await new Promise((resolve) => setTimeout(resolve, this.again ? 0 : AGAIN_MS));
      this.again = false;
    }
  }

  async watch() {
    this.abort = new AbortController();
    this.abort.signal.addEventListener("abort", () => (this.again = true));
    this.await();
    const answer = await fetch("/api/stream", { headers: headers(), signal: this.abort.signal, cache: "no-store" });
    if (answer.status === 403) {
      forgetToken();
      this.state("refused");
      this.again = true;
      return;
    }
    if (answer.status === 401) {
      this.state("locked");
      clearTimeout(this.timer);
      // Until there is a token.
      await new Promise((given) => this.abort.signal.addEventListener("abort", given));
      return;
    }
    if (!answer.ok) return;
    this.state("live");
    await this.read(answer.body.getReader());
  }

  async read(reader) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.await();
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) this.take(block);
    }
  }

  take(block) {
    let kind = "message";
    const data = [];
    for (const line of block.split("\n")) {
      if (line.startsWith("event:")) kind = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    }
    if (data.length > 0) this.told(kind, JSON.parse(data.join("\n")));
  }

  // A connection that says nothing for long is as good as lost.
  await() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.abort.abort(), SILENCE_MS);
  }
}

// Explains a node or a group.
export async function explain(kind, name) {
  const query = new URLSearchParams({ kind, name });
  const answer = await fetch(`/api/explain?${query}`, { headers: headers(), cache: "no-store" });
  if (!answer.ok) return { refused: answer.status, why: (await answer.text()).trim() };
  return answer.json();
}
