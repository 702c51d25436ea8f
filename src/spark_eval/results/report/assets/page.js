"use strict";
// Draws the views of a report from the data in the page. Text becomes text nodes only, never markup.
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  // Okabe and Ito's colours, in an order in which neighbours differ most. Their black is the colour of text;
  // their yellow is left out: on white nobody sees it.
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "ink"];
  const DASHES = ["solid", [6, 4], [2, 3], [9, 3, 2, 3], [12, 4], [4, 2], [1, 4]];
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "arrow", "roundRect"];
  const OUTCOMES = ["#0072B2", "#999999", "#E69F00", "#CC79A7", "#D55E00"];
  const GREY = "#8b949e";
  const MARKS = { "*": "best", "~": "not certainly worse than the best" };
  const FIRST_ROWS = 200;
  const MOST_NAMED = 5;
  // Charts whose vertical axis has values, and may begin elsewhere than at 0.
  const CUT = ["lines", "scatter"];
  const NUMBER = /^[+-]?\d+(\.\d+)?$/;
  // As the page's, for ECharts measures texts on its own.
  const FONT = getComputedStyle(document.body).fontFamily;
  const PRINTED_WIDTH = 690;
  const GAP = 12;
  // An axis of cutoffs is logarithmic where the largest is so many times the least.
  const FAR = 20;
  const shown = new Set(page.models.slice(0, page.shown));
  // Names of the data are never keys of plain objects, which have "constructor" and others already.
  const definitions = new Map(Object.entries(page.definitions));
  const picked = new Map();
  const entries = [];
  let isPrinted = false;

  // --- data -------------------------------------------------------------------------------------------

  /** Return a column as codes of its names where it has these, else as it is; `at` gives the value of a row. */
  function unpacked(column) {
    if (Array.isArray(column)) return { length: column.length, at: (row) => column[row] ?? null };
    const { names, places, runs } = column;
    let codes = places;
    if (runs) {
      codes = new Uint32Array(runs.reduce((sum, length) => sum + length, 0));
      let start = 0;
      runs.forEach((length, run) => codes.fill(places[run], start, start += length));
    }
    return { length: codes.length, names, codes, at: (row) => names[codes[row]] ?? null };
  }

  const datasets = new Map(Object.entries(page.datasets).map(([name, { columns, headings }]) => {
    const ours = new Map(Object.entries(columns).map(([column, packed]) => [column, unpacked(packed)]));
    const length = Math.max(0, ...[...ours.values()].map((column) => column.length));
    return [name, { columns: ours, headings: new Map(Object.entries(headings)), length }];
  }));

  const heading = (view, name) => datasets.get(view.dataset).headings.get(name) ?? name.replaceAll("_", " ");

  /** Return whether rows of a column are wanted, by their number. */
  function wanted(column, values) {
    const kept = new Set(values);
    if (!column.names) return (row) => kept.has(column.at(row));
    const isKept = column.names.map((name) => kept.has(name));
    return (row) => isKept[column.codes[row]];
  }

  /** Return the numbers of a view's rows that the choices of its chapter leave; of charts, of shown models. */
  function numbersOf(view, choices, isChart) {
    const { columns, length } = datasets.get(view.dataset);
    const tests = Object.entries({ ...view.where, ...choices })
      .filter(([name]) => columns.has(name)).map(([name, values]) => wanted(columns.get(name), values));
    const models = isChart && (columns.get("model") ?? columns.get("candidate"));
    if (models) {
      const hidden = wanted(models, page.models.filter((model) => !shown.has(model)));
      tests.push((row) => !hidden(row));
    }
    const found = [];
    for (let row = 0; row < length; row++) if (tests.every((test) => test(row))) found.push(row);
    return found;
  }

  /** Return rows of a view as objects. */
  function rowsOf(view, numbers) {
    const columns = [...datasets.get(view.dataset).columns];
    return numbers.map((row) => Object.fromEntries(columns.map(([name, column]) => [name, column.at(row)])));
  }

  // --- numbers: one format over the page, as in its sentences ------------------------------------------

  const bare = (number) => number.replace(/^(-?)0\./, "$1.");
  const grouped = (value, most) => bare(value.toLocaleString("en-US", most));

  /** Return a value with four decimals: .1234; a large one with one, a tiny one by its power of ten. */
  function decimal(value) {
    const size = Math.abs(value);
    if (size >= 1000) return grouped(value, { maximumFractionDigits: 1 });
    return value && size < 0.00005 ? value.toExponential(1) : bare(value.toFixed(4));
  }

  function text(value) {
    if (value === null || value === undefined) return "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? grouped(value) : decimal(value);
  }

  const exact = (value) => (typeof value === "number" ? grouped(value, { maximumSignificantDigits: 9 }) : text(value));
  // On axes.
  const tick = (value) => grouped(value, { maximumSignificantDigits: 4 });
  const percent = (value) => `${(100 * value).toFixed(1)}%`;
  const isFraction = (value) => typeof value === "number" && !Number.isInteger(value);

  // --- pieces of the page --------------------------------------------------------------------------------

  function make(kind, classes = "", content = "", parent = null) {
    const element = document.createElement(kind);
    if (classes) element.className = classes;
    if (content !== "") element.textContent = content;
    if (parent) parent.append(element);
    return element;
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Return how a model looks in every chart: colour, dashes and symbol follow from its place. Others are grey. */
  function lookOf(model) {
    const place = page.models.indexOf(model);
    if (place < 0) return { colour: GREY, dash: "solid", symbol: SYMBOLS[0] };
    const colour = COLOURS[place % COLOURS.length];
    const round = Math.floor(place / COLOURS.length) % DASHES.length;
    return { colour: colour === "ink" ? css("--ink") : colour, dash: DASHES[round], symbol: SYMBOLS[round] };
  }

  function swatch(model) {
    const { colour, dash } = lookOf(model);
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("class", "swatch");
    picture.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const ends = { x1: 0, y1: 6, x2: 26, y2: 6, stroke: colour, "stroke-width": 3 };
    if (dash !== "solid") ends["stroke-dasharray"] = dash.join(" ");
    for (const [name, value] of Object.entries(ends)) line.setAttribute(name, value);
    picture.append(line);
    return picture;
  }

  function legend(parent) {
    const list = make("ul", "legend", "", parent);
    list.setAttribute("aria-label", "Models and their lines");
    for (const model of page.models.filter((one) => shown.has(one))) {
      const entry = make("li", "", "", list);
      entry.append(swatch(model), document.createTextNode(model || "the model"));
    }
  }

  // --- tables --------------------------------------------------------------------------------------------

  /** Put a table into an element: cells are {value, text, class, title}; headers sort. */
  function putTable(parent, caption, header, lines, classes = "") {
    const scroll = make("div", "scroll", "", parent);
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", caption);
    const table = make("table", classes, "", scroll);
    const head = make("tr", "", "", make("thead", "", "", table));
    const body = make("tbody", "", "", table);
    const isNumber = header.map((_, place) => lines.some((line) => typeof line[place].value === "number"));
    let all = false;
    const fill = () => {
      body.replaceChildren(...lines.slice(0, all ? lines.length : FIRST_ROWS).map((line) => {
        const row = make("tr");
        line.forEach((cell, place) => {
          const data = make(place ? "td" : "th", `${isNumber[place] ? "number " : ""}${cell.class ?? ""}`, cell.text ?? text(cell.value), row);
          if (!place) data.scope = "row";
          if (cell.title) data.title = cell.title;
          if (cell.shade !== undefined) data.style.backgroundColor = `rgba(${css("--heat")}, ${cell.shade})`;
        });
        return row;
      }));
    };
    header.forEach((name, place) => {
      const cell = make("th", isNumber[place] ? "number" : "", "", head);
      cell.scope = "col";
      const button = make("button", "", name, cell);
      button.type = "button";
      if (definitions.has(name)) button.title = definitions.get(name);
      button.addEventListener("click", () => {
        const down = cell.getAttribute("aria-sort") === "ascending";
        for (const other of head.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        lines.sort((one, two) => (down ? -1 : 1) * compared(one[place].value, two[place].value));
        fill();
      });
    });
    fill();
    if (lines.length > FIRST_ROWS) {
      const more = make("button", "", `Show all ${lines.length.toLocaleString("en-US")} rows`, parent);
      more.type = "button";
      more.addEventListener("click", () => { all = true; fill(); more.remove(); });
    }
  }

  /** Return the order of two values; what is missing comes first, text by the numbers in it. */
  function compared(one, two) {
    const missing = (value) => value === null || value === undefined;
    if (missing(one) || missing(two)) return missing(two) - missing(one);
    if (typeof one === "number" && typeof two === "number") return one - two;
    if (NUMBER.test(one) && NUMBER.test(two)) return Number(one) - Number(two);
    return String(one).localeCompare(String(two), "en", { numeric: true });
  }

  function rowTable(parent, view, rows) {
    const hasFractions = new Set(view.shown.filter((name) => rows.some((row) => isFraction(row[name]))));
    const lines = rows.map((row) => view.shown.map((name) => ({
      value: row[name], text: hasFractions.has(name) && typeof row[name] === "number" ? decimal(row[name]) : text(row[name]), class: row[name] === "NO" || row[name] === "LEAK" ? "no" : "", title: typeof row[name] === "number" ? exact(row[name]) : "",
    })));
    putTable(parent, view.title, view.shown.map((name) => heading(view, name)), lines);
  }

  /** A table with a line for each model and cutoff, and a column for each metric. */
  function boardTable(parent, view, rows) {
    const { drawn } = view;
    const names = [...new Set(rows.map((row) => row[drawn.columns]))];
    const lines = new Map();
    for (const row of rows) {
      const key = JSON.stringify(drawn.rows.map((name) => row[name]));
      if (!lines.has(key)) lines.set(key, { head: drawn.rows.map((name) => row[name]), cells: new Map(), n: 0 });
      const line = lines.get(key);
      line.cells.set(row[drawn.columns], row);
      line.n = Math.max(line.n, row[drawn.n] ?? 0);
    }
    const places = new Map(page.models.map((model, place) => [model, place]));
    const best = (line) => places.get(line.head[0]);
    const ordered = [...lines.values()].sort((one, two) => compared(one.head[1], two.head[1]) || best(one) - best(two));
    const cells = ordered.map((line) => [
      ...line.head.map((value) => ({ value })),
      ...names.map((name) => {
        const row = line.cells.get(name);
        if (!row || row[drawn.value] === null) return { value: null };
        const mark = row[drawn.mark];
        return {
          value: row[drawn.value],
          text: `${decimal(row[drawn.value])}${mark}${ofOthers(row[drawn.n], line.n)}`,
          class: mark === "*" ? "best" : "",
          title: `${exact(row[drawn.value])}${intervalOf(row)}; ${text(row[drawn.n])} ${heading(view, drawn.n)}${mark ? `; ${MARKS[mark]}` : ""}`,
        };
      }),
      { value: line.n },
    ]);
    putTable(parent, view.title, [...drawn.rows, ...names, heading(view, drawn.n)], cells);
  }

  /** Return how many users a cell is of, where its line is of others. */
  const ofOthers = (n, ofLine) => (n === null || n === ofLine ? "" : ` (n = ${text(n)})`);
  const intervalOf = (row) => (row.ci_low === null ? "" : ` (${decimal(row.ci_low)} to ${decimal(row.ci_high)})`);

  /** A table tinted by its values: a line for each value of the segment, a column for each model or other value. */
  function heatTable(parent, view, rows) {
    const { drawn } = view;
    const known = new Set(rows.map((row) => row[drawn.columns]));
    const models = drawn.columns === "model" ? page.models.filter((model) => known.has(model)) : [...known].sort(compared);
    const values = rows.map((row) => row[drawn.value]).filter((value) => value !== null);
    const low = values.reduce((least, value) => Math.min(least, value), Infinity);
    const span = values.reduce((most, value) => Math.max(most, value), -Infinity) - low || 1;
    const lines = new Map();
    for (const row of rows) {
      if (!lines.has(row[drawn.rows])) lines.set(row[drawn.rows], new Map());
      lines.get(row[drawn.rows]).set(row[drawn.columns], row);
    }
    const ordered = [...lines].sort(([one], [two]) => compared(one, two));
    const cells = ordered.map(([name, line]) => {
      const most = Math.max(...[...line.values()].map((row) => row[drawn.n] ?? 0));
      return [{ value: name }, { value: most }, ...models.map((model) => {
        const row = line.get(model);
        if (!row || row[drawn.value] === null) return { value: null };
        const isSmall = row[drawn.n] < drawn.few;
        return {
          value: row[drawn.value],
          text: `${isSmall ? "⚠ " : ""}${decimal(row[drawn.value])}${ofOthers(row[drawn.n], most)}`,
          title: `${model}, ${name}: ${exact(row[drawn.value])}${intervalOf(row)}; ${text(row[drawn.n])} ${heading(view, drawn.n)}${isSmall ? ", few" : ""}`,
          shade: (0.05 + 0.5 * (row[drawn.value] - low) / span).toFixed(3),
        };
      })];
    });
    const corner = view.where.segment ? view.where.segment[0] : drawn.rows;
    putTable(parent, view.title, [corner, heading(view, drawn.n), ...models], cells, "heat");
    const small = ordered.filter(([, line]) => [...line.values()].some((row) => row[drawn.value] !== null && row[drawn.n] < drawn.few));
    if (small.length) {
      const named = small.slice(0, MOST_NAMED).map(([name]) => name).join(", ");
      const unit = heading(view, drawn.n);
      make("p", "definition", `⚠ Fewer than ${drawn.few} ${unit} in ${small.length} of ${ordered.length}: ${named}${small.length > MOST_NAMED ? " and more" : ""}.`, parent);
    }
  }

  // --- charts --------------------------------------------------------------------------------------------

  /** Return the tip of a mark: all that the table has of its row. */
  function tip(view, row) {
    const box = make("div", "tip");
    for (const name of view.shown) {
      const line = make("div", "", "", box);
      make("span", "", heading(view, name), line);
      make("strong", "", exact(row[name]), line);
    }
    return box;
  }

  function axis(more) {
    const colour = css("--faint"), line = css("--line");
    return {
      axisLabel: { color: colour, hideOverlap: true, fontFamily: FONT, ...(more.type === "value" ? { formatter: tick } : {}), ...more.axisLabel },
      axisLine: { lineStyle: { color: line } },
      axisTick: { lineStyle: { color: line }, ...more.axisTick },
      splitLine: { show: more.type !== "category", lineStyle: { color: line, opacity: 0.6 } },
      nameTextStyle: { color: colour, fontFamily: FONT },
      nameLocation: "middle",
      ...Object.fromEntries(Object.entries(more).filter(([name]) => name !== "axisLabel" && name !== "axisTick")),
    };
  }

  function frame(view, more) {
    return {
      animation: false,
      textStyle: { fontFamily: FONT, color: css("--text") },
      // Within the chart, or ECharts would draw an arrow with styles that the policy forbids.
      tooltip: {
        confine: true, trigger: "item", backgroundColor: css("--raised"), borderColor: css("--line"),
        textStyle: { color: css("--text") }, formatter: ({ data }) => (data && data.row ? tip(view, data.row) : ""),
      },
      grid: { left: 12, right: 24, top: 18, bottom: 12, containLabel: true },
      ...more,
    };
  }

  const shortened = (name, most) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

  /** Return where cutoffs are on an axis that is true to them, by logarithms where they reach far; "all" beyond. */
  function scaleOf(cutoffs) {
    const numbers = cutoffs.map(Number).filter((cutoff) => !Number.isNaN(cutoff));
    const least = Math.min(...numbers), most = Math.max(...numbers);
    const isLog = most > FAR * least;
    const at = isLog ? Math.log10 : (cutoff) => cutoff;
    const step = ((at(most) - at(least)) || at(most) || 1) * 0.2;
    const places = new Map(cutoffs.map((cutoff) => [cutoff, Number.isNaN(Number(cutoff)) ? at(most) + step : at(Number(cutoff))]));
    const names = new Map([...places].map(([cutoff, place]) => [place, cutoff]));
    const ends = [...places.values()], customValues = ends;
    return {
      places, name: isLog ? "k (logarithmic)" : "k",
      more: {
        type: "value", min: Math.min(...ends) - step / 5, max: Math.max(...ends) + step / 5,
        splitLine: { show: false }, axisTick: { customValues }, axisLabel: { customValues, formatter: (place) => names.get(place) ?? "" },
      },
    };
  }

  function linesChart(view, rows) {
    const { drawn } = view;
    const scale = drawn.cutoffs && scaleOf(drawn.cutoffs);
    const places = scale ? scale.places : drawn.categories && new Map(drawn.categories.map((name, place) => [name, place]));
    const ofModels = new Map();
    for (const row of rows) {
      if (row[drawn.y] === null) continue;
      if (!ofModels.has(row[drawn.series])) ofModels.set(row[drawn.series], []);
      ofModels.get(row[drawn.series]).push(row);
    }
    const isCrowded = rows.length > 15 * Math.max(1, ofModels.size);
    const series = [...ofModels].map(([model, points]) => {
      const { colour, dash, symbol } = lookOf(model);
      const at = (row) => (places ? places.get(String(row[drawn.x])) : row[drawn.x]);
      if (places) points.sort((one, two) => at(one) - at(two));
      const data = points.map((row) => ({ value: [at(row), row[drawn.y]], row }));
      // Bins are half open: the line goes on to the end of the last one, and a share below to 1.
      const last = points[points.length - 1];
      if (drawn.steps) data.push({ value: [last[drawn.bins], last[drawn.y]], row: last });
      if (drawn.to_one && data.length) data.push({ value: [last[drawn.x], 1], row: last });
      return {
        type: "line", name: model, data, step: drawn.steps ? "end" : false, symbol, symbolSize: isCrowded ? 5 : 7,
        showSymbol: true, showAllSymbol: true, lineStyle: { color: colour, type: dash, width: 2 },
        itemStyle: { color: colour, opacity: isCrowded && !drawn.points ? 0 : 1 }, emphasis: { itemStyle: { opacity: 1 } },
      };
    });
    if (drawn.diagonal) {
      series.push({
        type: "line", data: [[0, 0], [1, 1]], symbol: "none", silent: true,
        lineStyle: { color: css("--faint"), type: [3, 3], width: 1 },
      });
    }
    const unit = drawn.is_unit ? { min: 0, max: 1 } : {};
    return {
      height: view.is_small ? (drawn.is_unit ? 320 : 230) : 320,
      isEmpty: !ofModels.size,
      option: frame(view, {
        xAxis: axis({ name: scale ? scale.name : drawn.x_title ?? heading(view, drawn.x), nameGap: 26, ...(scale ? scale.more
          : places ? { type: "category", data: drawn.categories, boundaryGap: drawn.categories.length < 3 } : { type: "value", ...unit }) }),
        yAxis: axis({ type: "value", scale: !drawn.steps, name: drawn.y_title ?? "", nameGap: 40, ...unit, ...(drawn.to_one ? { min: 0, max: 1 } : {}) }),
        grid: { left: drawn.y_title ? 28 : 12, right: 24, top: 18, bottom: 28, containLabel: true },
        series,
      }),
    };
  }

  /** A dot with whiskers for each row, the best on top or in the data's order. */
  function intervalsChart(view, rows, width) {
    const { drawn } = view;
    const kept = rows.filter((row) => row[drawn.value] !== null);
    const sign = kept.some((row) => row.better === "lower") ? -1 : 1;
    const place = (row) => page.models.indexOf(row[drawn.label]);
    // The axis begins at the bottom.
    if (drawn.is_ordered) kept.reverse();
    else kept.sort((one, two) => sign * (one[drawn.value] - two[drawn.value]) || place(two) - place(one));
    const room = Math.min(260, width * 0.32);
    // Colour says which model it is, a full dot that it is marked, or that its interval leaves 0 out.
    const isFull = (row) => {
      if (drawn.mark) return !!row[drawn.mark];
      return !drawn.zero || (row[drawn.low] !== null && (row[drawn.low] > 0 || row[drawn.high] < 0));
    };
    const dotsOf = (row) => row[drawn.dots] ?? [];
    const whiskers = (_, api) => {
      const [middle, low, high] = [0, 2, 3].map((place) => api.value(place)), line = api.value(1);
      const at = (value) => api.coord([value, line]);
      const [x, y] = at(middle);
      const row = kept[line], { colour: stroke, dash } = lookOf(row[drawn.look ?? drawn.label]);
      const children = dotsOf(row).map((dot) => ({ type: "circle", shape: { cx: at(dot)[0], cy: y, r: 3.5 }, style: { fill: css("--back"), stroke, lineWidth: 1 } }));
      if (row[drawn.low] !== null) {
        const [start] = at(low), [end] = at(high);
        const lineDash = dash === "solid" ? undefined : dash;
        children.push({ type: "line", shape: { x1: start, y1: y, x2: end, y2: y }, style: { stroke, lineWidth: 2, lineDash } });
        for (const edge of [start, end]) {
          children.push({ type: "line", shape: { x1: edge, y1: y - 4, x2: edge, y2: y + 4 }, style: { stroke, lineWidth: 2 } });
        }
      }
      children.push({ type: "circle", shape: { cx: x, cy: y, r: 5 }, style: { fill: isFull(row) ? stroke : css("--back"), stroke, lineWidth: 2 } });
      return { type: "group", children };
    };
    const ends = kept.flatMap((row) => [row[drawn.value], row[drawn.low], row[drawn.high], ...dotsOf(row)]).filter((value) => value !== null);
    if (drawn.zero) ends.push(0);
    const pad = (Math.max(...ends) - Math.min(...ends)) * 0.05 || 0.01;
    const names = kept.map((row) => `${row[drawn.label]}${drawn.mark && row[drawn.mark] ? ` ${row[drawn.mark]}` : ""}`);
    const series = [{
      type: "custom", renderItem: whiskers, encode: { x: [0, 2, 3], y: 1 }, clip: true,
      data: kept.map((row, line) => ({ value: [row[drawn.value], line, row[drawn.low] ?? row[drawn.value], row[drawn.high] ?? row[drawn.value]], row })),
      markLine: drawn.zero ? { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: css("--text"), type: "solid", width: 1 }, data: [{ xAxis: 0 }] } : undefined,
    }];
    return {
      height: 60 + 24 * kept.length,
      isEmpty: !kept.length,
      option: frame(view, {
        xAxis: axis({ type: "value", min: Math.min(...ends) - pad, max: Math.max(...ends) + pad, axisLabel: { showMinLabel: false, showMaxLabel: false, formatter: (value) => tick(Number(value.toPrecision(3))) } }),
        yAxis: axis({ type: "category", data: names, axisLabel: { width: room, overflow: "truncate", interval: 0, color: css("--text") } }),
        series,
      }),
    };
  }

  function stackChart(view, rows, width) {
    const { drawn } = view;
    const kept = [...rows].reverse();
    const total = (row) => drawn.values.reduce((sum, name) => sum + (row[name] ?? 0), 0) || 1;
    const colours = drawn.values.length <= 3 ? ["#0072B2", "#999999", "#D55E00"] : OUTCOMES;
    const series = drawn.values.map((name, place) => ({
      type: "bar", name: heading(view, name), stack: "all", barMaxWidth: 18, itemStyle: { color: colours[place], decal: { symbol: "none" } },
      data: kept.map((row) => ({ value: drawn.is_share ? (100 * (row[name] ?? 0)) / total(row) : row[name] ?? 0, row })),
    }));
    return {
      height: 96 + 24 * kept.length,
      isEmpty: !kept.length,
      option: frame(view, {
        legend: { top: 0, left: 0, textStyle: { color: css("--text"), fontFamily: FONT }, selectedMode: false },
        xAxis: axis({ type: "value", max: drawn.is_share ? 100 : undefined, axisLabel: { formatter: drawn.is_share ? "{value}%" : tick } }),
        yAxis: axis({ type: "category", data: kept.map((row) => row[drawn.label]), axisLabel: { width: Math.min(260, width * 0.32), overflow: "truncate", interval: 0, color: css("--text") } }),
        grid: { left: 12, right: 28, top: 34, bottom: 12, containLabel: true },
        aria: { enabled: false, decal: { show: true } },
        series,
      }),
    };
  }

  /** A bar for each row with its number, or for each label a bar of each model beside a grey one of all others. */
  function barsChart(view, rows, width) {
    const { drawn } = view;
    const labels = [...new Set(rows.map((row) => row[drawn.label]))];
    const known = new Set(rows.map((row) => row[drawn.series] ?? null));
    const whose = [null, ...page.models].filter((one) => known.has(one));
    const said = ({ data: { row } }) => {
      const value = row[drawn.value];
      if (value === null) return "–";
      const share = row[drawn.share] ?? null;
      return `${drawn.is_share ? percent(value) : text(value)}${share === null ? "" : ` (${percent(share)})`}`;
    };
    const series = whose.map((one) => ({
      type: "bar", name: one ?? drawn.others ?? "", barMaxWidth: 18, barGap: "10%", itemStyle: { color: lookOf(one).colour },
      label: { show: !drawn.series, position: "right", color: css("--text"), fontFamily: FONT, formatter: said },
      data: rows.filter((row) => (row[drawn.series] ?? null) === one).map((row) => ({ value: [row[drawn.value] ?? 0, labels.indexOf(row[drawn.label])], row })),
    }));
    return {
      height: 60 + labels.length * (drawn.series ? 14 + 9 * whose.length : 28),
      isEmpty: !rows.length,
      option: frame(view, {
        xAxis: axis({ type: "value", min: 0, axisLabel: { formatter: drawn.is_share ? (value) => `${tick(100 * value)}%` : tick } }),
        yAxis: axis({ type: "category", inverse: true, data: labels, axisLabel: { width: Math.min(260, width * 0.32), overflow: "truncate", interval: 0, color: css("--text") } }),
        grid: { left: 12, right: drawn.series ? 28 : 120, top: 10, bottom: 12, containLabel: true },
        series,
      }),
    };
  }

  /** A point for each model; those on the front are full, with a line through them. */
  function scatterChart(view, rows, width) {
    const { drawn } = view;
    const at = (row) => [row[drawn.x], row[drawn.y]];
    const front = rows.filter((row) => row[drawn.front]).sort((one, two) => one[drawn.x] - two[drawn.x]);
    const points = rows.map((row) => {
      const { colour, symbol } = lookOf(row[drawn.label]);
      return { value: at(row), row, symbol, itemStyle: { color: row[drawn.front] ? colour : css("--back"), borderColor: colour, borderWidth: 2, opacity: 1 } };
    });
    const name = ({ data: { row } }) => shortened(row[drawn.label] || "the model", Math.max(8, Math.floor(width / 45)));
    const named = (column) => (rows.length ? String(rows[0][column]) : "");
    return {
      height: 340,
      isEmpty: !rows.length,
      option: frame(view, {
        xAxis: axis({ type: "value", scale: true, name: named(drawn.x_title), nameGap: 26, boundaryGap: ["5%", "12%"] }),
        yAxis: axis({ type: "value", scale: true, name: named(drawn.y_title), nameGap: 44, boundaryGap: ["8%", "8%"] }),
        grid: { left: 32, right: 60, top: 18, bottom: 28, containLabel: true },
        series: [
          { type: "line", data: front.map(at), symbol: "none", silent: true, z: 1, lineStyle: { color: css("--faint"), type: [4, 4], width: 1 } },
          {
            type: "scatter", data: points, symbolSize: 12, labelLayout: { hideOverlap: true },
            label: { show: true, position: "right", color: css("--text"), fontFamily: FONT, formatter: name },
          },
        ],
      }),
    };
  }

  /** A cross for each row with intervals in both directions; a line and its band through the other rows. */
  function crossesChart(view, rows) {
    const { drawn } = view, { x, y } = drawn;
    const kept = rows.filter((row) => row.point === drawn.is_point), line = rows.filter((row) => row.point !== drawn.is_point);
    const ends = (name) => [`${name}_low`, `${name}_high`];
    const cross = (_, api) => {
      const row = kept[api.value(2)], stroke = css("--text");
      const at = (along, up) => api.coord([along, up]);
      const arms = [ends(x).map((name) => at(row[name], row[y])), ends(y).map((name) => at(row[x], row[name]))];
      const [cx, cy] = at(row[x], row[y]);
      const lines = arms.map(([[x1, y1], [x2, y2]]) => ({ type: "line", shape: { x1, y1, x2, y2 }, style: { stroke, lineWidth: 1, opacity: 0.45 } }));
      return { type: "group", children: [...lines, { type: "circle", shape: { cx, cy, r: 4 }, style: { fill: "#0072B2" } }] };
    };
    const [low, high] = ends(y).map((name) => line.map((row) => [row[x], row[name]]));
    const band = (_, api) => ({
      type: "polygon", silent: true, shape: { points: [...low, ...[...high].reverse()].map((pair) => api.coord(pair)) },
      style: { fill: "#56B4E9", opacity: 0.22 },
    });
    const extent = (name) => {
      const values = [...kept, ...line].flatMap((row) => [name, ...ends(name)].map((column) => row[column])).filter((value) => value !== null);
      const pad = (Math.max(...values) - Math.min(...values)) * 0.04 || 0.01;
      return { min: Math.min(...values, 0) - pad, max: Math.max(...values, 0) + pad };
    };
    const scale = (name, nameGap) => axis({ type: "value", ...extent(name), name: `${name} difference`, nameGap, axisLabel: { showMinLabel: false, showMaxLabel: false, formatter: (value) => tick(Number(value.toPrecision(3))) } });
    const zero = { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: css("--faint"), type: "solid", width: 1 }, data: [{ xAxis: 0 }, { yAxis: 0 }] };
    return {
      height: 400,
      isEmpty: !kept.length,
      option: frame(view, {
        xAxis: scale(x, 26),
        yAxis: scale(y, 44),
        grid: { left: 32, right: 24, top: 18, bottom: 28, containLabel: true },
        series: [
          ...(line.length ? [
            { type: "custom", renderItem: band, data: [[low[0][0], low[0][1]]], silent: true, clip: true },
            { type: "line", data: line.map((row) => [row[x], row[y]]), symbol: "none", silent: true, lineStyle: { color: "#0072B2", width: 2 } },
          ] : []),
          { type: "custom", renderItem: cross, clip: true, markLine: zero, encode: { x: 0, y: 1 }, data: kept.map((row, place) => ({ value: [row[x], row[y], place], row })) },
        ],
      }),
    };
  }

  function spansChart(view, rows) {
    const { drawn } = view;
    const lanes = [...new Set(rows.map((row) => row[drawn.lane]))].reverse();
    const parts = [...new Set(rows.map((row) => row[drawn.part]))];
    const colours = ["#56B4E9", "#E69F00", "#009E73"];
    const span = (_, api) => {
      const [x1, y] = api.coord([api.value(1), api.value(0)]), [x2] = api.coord([api.value(2), api.value(0)]);
      const row = rows[api.value(3)];
      const width = Math.max(1, x2 - x1 - 1), half = Math.min(14, api.size([0, 1])[1] * 0.35);
      const label = { text: shortened(row[drawn.part], Math.floor(width / 7)), fill: "#000", x: x1 + 6, y, verticalAlign: "middle", fontSize: 12, fontFamily: FONT };
      return { type: "group", children: [
        { type: "rect", shape: { x: x1, y: y - half, width, height: 2 * half }, style: { fill: colours[parts.indexOf(row[drawn.part]) % 3] } },
        ...(width > 30 ? [{ type: "text", style: label, silent: true }] : []),
      ] };
    };
    return {
      height: 70 + 36 * lanes.length,
      isEmpty: !rows.length,
      option: frame(view, {
        xAxis: axis({ type: "time", min: Math.min(...rows.map((row) => row[drawn.start])), max: Math.max(...rows.map((row) => row[drawn.end])), splitNumber: 6, axisLabel: { formatter: "{yyyy}-{MM}-{dd}", showMinLabel: false, showMaxLabel: false } }),
        yAxis: axis({ type: "category", data: lanes, name: lanes.length > 1 ? heading(view, drawn.lane) : "", nameGap: 30 }),
        useUTC: true,
        series: [{
          type: "custom", renderItem: span, encode: { x: [1, 2], y: 0 },
          data: rows.map((row, place) => ({ value: [lanes.indexOf(row[drawn.lane]), row[drawn.start], row[drawn.end], place], row })),
        }],
      }),
    };
  }

  const DRAWN = { lines: linesChart, intervals: intervalsChart, stack: stackChart, spans: spansChart, bars: barsChart, scatter: scatterChart, crosses: crossesChart };

  // --- chapters ------------------------------------------------------------------------------------------

  /** Draw the chart of an entry in the place of the one that it has. */
  function drawChart(entry) {
    const { view, choices, figure } = entry;
    const element = make("div", "chart");
    entry.chart?.dispose();
    entry.element.replaceWith(element);
    element.setAttribute("role", "img");
    const chosen = Object.values(choices).flat().filter((value) => value !== "all").join(", ");
    element.setAttribute("aria-label", `${view.alt}${chosen ? ` (${chosen})` : ""}. The table below has all numbers.`);
    const width = isPrinted ? (view.is_small ? (PRINTED_WIDTH - GAP) / 2 : PRINTED_WIDTH) : figure.clientWidth;
    entry.numbers = numbersOf(view, choices, true);
    const { height, option, isEmpty } = DRAWN[view.kind](view, rowsOf(view, entry.numbers), width);
    Object.assign(entry, { element, chart: null });
    if (isEmpty) {
      entry.element = make("p", "none", "No values here for the models that are chosen.");
      element.replaceWith(entry.element);
      return;
    }
    element.style.height = `${height}px`;
    entry.chart = echarts.init(element, null, { renderer: "svg", width, height });
    entry.chart.setOption(option);
    tellCut(entry, element);
    // On paper the style makes it as wide as the page.
    element.querySelector("svg")?.setAttribute("viewBox", `0 0 ${width} ${height}`);
  }

  /** Say above a chart of lines or points where its vertical axis begins, unless 0 is in sight. */
  function tellCut(entry, element) {
    entry.cut?.remove();
    if (!CUT.includes(entry.view.kind)) return;
    const [low, high] = entry.chart.getModel().getComponent("yAxis").axis.scale.getExtent();
    if (low <= 0 && high >= 0) return;
    entry.cut = make("p", "definition cut", `The vertical axis begins at ${tick(low)}, not at 0.`);
    element.before(entry.cut);
  }

  function drawHeat(entry) {
    const { view, choices, element } = entry;
    entry.numbers = numbersOf(view, choices, true);
    element.replaceChildren();
    heatTable(element, view, rowsOf(view, entry.numbers));
  }

  function putView(parent, chapter, view, choices) {
    const outer = make("figure", `view${view.is_small ? " small" : ""}`, "", parent);
    const figure = view.is_folded ? make("details", "", "", outer) : outer;
    if (view.is_folded) make("summary", "", view.title, figure);
    else make("h3", "", view.title, figure);
    if (view.note) make("p", "definition", view.note, figure);
    const all = () => rowsOf(view, numbersOf(view, choices, false));
    if (view.kind === "board") {
      const free = Object.fromEntries(Object.entries(choices).filter(([name]) => name !== "measure"));
      boardTable(figure, view, rowsOf(view, numbersOf(view, free, false)));
      return;
    }
    if (view.kind === "table") {
      rowTable(figure, view, all());
      return;
    }
    const entry = { chapter, view, choices, figure, element: make("div", "", "", figure), draw: view.kind === "heat" ? drawHeat : drawChart };
    entries.push(entry);
    entry.draw(entry);
    if (view.kind === "heat") return;
    const behind = make("details", "", "", figure);
    make("summary", "", `Table: ${view.title}`, behind);
    // Rows of the table are made when somebody looks.
    behind.addEventListener("toggle", () => {
      if (behind.open && behind.children.length === 1) rowTable(behind, view, all());
    });
  }

  /** Return the values of a column among the rows that earlier choices leave, in the data's order; parts by name. */
  function valuesOf(chapter, name, choices) {
    const found = new Set();
    for (const view of chapter.views) {
      const column = datasets.get(view.dataset).columns.get(name);
      if (column) for (const row of numbersOf(view, choices, false)) found.add(column.at(row));
    }
    const isAll = (value) => value === "all";
    const order = (one, two) => isAll(two) - isAll(one) || compared(one, two);
    return name === "part" ? [...found].sort(order) : [...found];
  }

  /** Return what a metric is, also of one with its cutoff. */
  const definitionOf = (measure) => definitions.get(measure) ?? definitions.get(String(measure).replace(/@[^@]*$/, ""));

  function putChapter(name) {
    const chapter = page.chapters[name];
    const section = document.getElementById(name);
    const picks = section.querySelector(".picks"), views = section.querySelector(".views");
    for (const entry of entries.filter((one) => one.chapter === name)) {
      entry.chart?.dispose();
      entries.splice(entries.indexOf(entry), 1);
    }
    const focused = document.activeElement?.dataset?.pick;
    picks.replaceChildren();
    views.replaceChildren();
    const choices = {};
    if (!picked.has(name)) picked.set(name, new Map());
    const mine = picked.get(name);
    for (const pick of chapter.picks) {
      const values = valuesOf(chapter, pick, choices);
      const favourite = mine.get(pick) ?? page.first;
      const value = values.includes(favourite) ? favourite : values[0];
      choices[pick] = [value];
      if (values.length > 1) {
        const label = make("label", "", `${pick.replaceAll("_", " ")} `, picks);
        const select = make("select", "", "", label);
        select.dataset.pick = `${name} ${pick}`;
        for (const one of values) select.add(new Option(one, one, false, one === value));
        select.addEventListener("change", () => { mine.set(pick, select.value); putChapter(name); });
        if (select.dataset.pick === focused) select.focus();
      }
      if (definitionOf(value)) make("p", "definition", `${value}: ${definitionOf(value)}`, picks);
    }
    const needsLegend = chapter.views.some(({ kind, drawn }) => kind === "lines" || kind === "scatter" || (kind === "bars" && drawn.series));
    if (needsLegend && page.models.length > 1) legend(views);
    for (const view of chapter.views) putView(views, name, view, choices);
  }

  function putAll() {
    for (const name of Object.keys(page.chapters)) putChapter(name);
  }

  // Charts whose models changed are drawn when they are near to be seen.
  const stale = new Map();
  const seen = new IntersectionObserver((found) => {
    for (const { target } of found.filter(({ isIntersecting }) => isIntersecting)) {
      seen.unobserve(target);
      const entry = stale.get(target);
      stale.delete(target);
      if (entries.includes(entry)) entry.draw(entry);
    }
  }, { rootMargin: "50% 0px" });

  /** Draw what other models change, and nothing else. */
  function changeModels() {
    for (const old of document.querySelectorAll(".legend")) {
      const parent = old.parentElement;
      legend(parent);
      old.replaceWith(parent.lastElementChild);
    }
    for (const entry of entries) {
      const numbers = numbersOf(entry.view, entry.choices, true);
      const isSame = numbers.length === entry.numbers.length && numbers.every((row, place) => row === entry.numbers[place]);
      if (isSame) {
        stale.delete(entry.figure);
        seen.unobserve(entry.figure);
      } else if (entry.draw === drawHeat) {
        entry.draw(entry);
      } else {
        stale.set(entry.figure, entry);
        seen.unobserve(entry.figure);
        seen.observe(entry.figure);
      }
    }
  }

  function putModels() {
    const boxes = document.getElementById("model-boxes");
    if (!boxes) return;
    const count = document.getElementById("models-shown");
    const tell = () => { count.textContent = `${shown.size} of ${page.models.length}`; };
    const inputs = [];
    const choose = (models) => {
      shown.clear();
      for (const model of models) shown.add(model);
      for (const input of inputs) input.checked = shown.has(input.value);
      tell();
      changeModels();
    };
    for (const [title, models] of [["All", page.models], [`First ${Math.min(page.shown, page.models.length)}`, page.models.slice(0, page.shown)]]) {
      const button = make("button", "", title, boxes);
      button.type = "button";
      button.addEventListener("click", () => choose(models));
    }
    for (const model of page.models) {
      const label = make("label", "", "", boxes);
      const input = make("input", "", "", label);
      input.type = "checkbox";
      input.value = model;
      input.checked = shown.has(model);
      inputs.push(input);
      input.addEventListener("change", () => {
        shown[input.checked ? "add" : "delete"](model);
        tell();
        changeModels();
      });
      label.append(" ", swatch(model), document.createTextNode(model || "the model"));
    }
    tell();
  }

  // --- what changes the page -----------------------------------------------------------------------------

  function redraw() {
    const boxes = document.getElementById("model-boxes");
    for (const picture of boxes?.querySelectorAll(".swatch") ?? []) {
      picture.replaceWith(swatch(picture.parentElement.querySelector("input").value));
    }
    putAll();
  }

  putModels();
  putAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", (query) => { isPrinted = query.matches; redraw(); });
  let width = innerWidth, timer = 0;
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => { if (innerWidth !== width && !isPrinted) { width = innerWidth; putAll(); } }, 150);
  });
  // A plot in a notebook: its frame becomes as high as it is, where the notebook lets it reach that.
  if (document.body.classList.contains("plot") && window.frameElement) {
    const fit = () => { window.frameElement.style.height = `${Math.ceil(document.body.getBoundingClientRect().height)}px`; };
    new ResizeObserver(fit).observe(document.body);
  }
  document.documentElement.dataset.drawn = "yes";
})();
