/* Before the first paint: the theme that was chosen, and that there is a script. */
(() => {
  const root = document.documentElement;
  let theme = new URLSearchParams(location.search).get('theme');
  try { theme = theme || localStorage.getItem('hermes-theme'); } catch (e) { /* storage is switched off */ }
  if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  root.dataset.js = '';
})();
