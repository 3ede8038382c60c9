import Foundation

/// The pages, scripts and styles that the relay serves: the files of the folder `Web`.
///
/// `Deploy/embed` compiles them into the program; a test compares the two. While pages are written, `folder` reads them
/// from disk instead, so that a reload shows an edit.
package struct WebFiles: Sendable {
    /// One file as it is served.
    struct File: Sendable {
        var text: String
        /// The media type without its character set.
        var type: String
    }

    private static let types = ["css": "text/css", "html": "text/html", "js": "text/javascript"]

    private let folder: String?

    /// - Parameter folder: A copy of `Sources/RelayConsole/Web`; `nil` for the embedded files.
    package init(folder: String? = nil) {
        self.folder = folder
    }

    /// Returns the file at a path below `/console/` or `/demo/`, or `zonecast.js`; `nil` if there is none.
    func file(_ path: String) -> File? {
        switch path {
        case "zonecast.js": clientModule
        // The console parses and writes JSON with the same code.
        case "console/json.js": raw("client/json.js")
        case "console/", "demo/": raw(path + "index.html")
        default: path.hasPrefix("client/") || path.hasSuffix("/index.html") ? nil : raw(path)
        }
    }

    /// `zonecast.js` as one file: programs copy it, so it must not import others.
    private var clientModule: File? {
        guard var module = raw("client/zonecast.js"), let json = raw("client/json.js") else { return nil }
        let own = module.text.split(separator: "\n", omittingEmptySubsequences: false).filter {
            !$0.hasSuffix(#"from "./json.js";"#)
        }
        module.text = own.joined(separator: "\n") + "\n" + json.text
        return module
    }

    private func raw(_ path: String) -> File? {
        guard let embedded = Self.embedded[path] else { return nil }
        let type = Self.types[String(path.split(separator: ".").last ?? "")] ?? "text/plain"
        guard let folder else { return File(text: embedded, type: type) }
        return FileManager.default.contents(atPath: "\(folder)/\(path)").map {
            File(text: String(decoding: $0, as: UTF8.self), type: type)
        }
    }
}
