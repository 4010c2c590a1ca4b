// The data is unpacked and shown, and what the address names is opened.
const unpacked = async () => {
  const packed = Uint8Array.from(atob(byId("data").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
};
const openTarget = () => {
  const node = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  if (node && node.tagName === "DETAILS") { node.hidden = false; node.open = true; node.scrollIntoView(); }
};
const show = async () => {
  const data = await unpacked();
  showGraphs(data);
  showStages(data);
  showMemory(data);
  showGuards(data);
  addEventListener("hashchange", openTarget);
  openTarget();
  document.documentElement.dataset.ready = Math.round(performance.now());
};
show();
