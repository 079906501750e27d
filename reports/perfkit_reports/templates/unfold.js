"use strict";
// What lies in the page compressed, in letters: a browser unfolds it by itself.
function unfolded(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}
const unfold = (text) => unfolded(text).text();
const unfoldBytes = (text) => unfolded(text).arrayBuffer();
