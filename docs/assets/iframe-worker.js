// Pages opened from disk may start no Worker. The search then runs in a hidden frame that acts as one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.body.appendChild(document.createElement("iframe"))
      frame.hidden = true
      const base = new URL(url, location.href)
      const scope = frame.contentWindow
      scope.document.open()
      scope.document.write("<!doctype html><title>search</title>")
      scope.document.close()
      const load = source => new Promise((done, failed) => {
        const script = scope.document.createElement("script")
        script.src = new URL(source, base).href
        script.onload = done
        script.onerror = failed
        scope.document.head.appendChild(script)
      })
      scope.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
      scope.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      const loaded = load(base)
      this.postMessage = data => loaded.then(() => scope.dispatchEvent(new scope.MessageEvent("message", { data })))
      this.terminate = () => frame.remove()
    }
  }
}
