import Foundation
import Testing

/// Comments cite a page of this repository by file and heading, as in `Sync.md, "Outbox"`; both must exist.
@Suite struct CitationTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .appendingPathComponent("../..").standardizedFileURL

    // MARK: The repository

    @Test("every page and heading that a Swift comment cites exists")
    func everyCitationResolves() throws {
        let pages = try Pages(in: Self.root)
        var problems: [String] = []
        for file in try Self.files(ending: ".swift", in: ["Package.swift", "Sources", "Tests"]) {
            problems += pages.problems(inCommentsOf: try Self.text(file)).map { "\(file):\($0)" }
        }
        #expect(problems.isEmpty, "\(problems.joined(separator: "\n"))")
    }

    @Test("the headings of a reference page are unique")
    func headingsAreUnique() throws {
        for page in try Self.files(ending: ".md", in: ["Sources"]) where page.contains("/Documentation/") {
            let headings = Pages.headings(of: try Self.text(page))
            let doubles = Dictionary(grouping: headings) { $0 }.filter { $1.count > 1 }.keys.sorted()
            #expect(doubles.isEmpty, "\(page): \(doubles)")
        }
    }

    @Test("every path that the map of the sources and the pages at the root name exists")
    func everyPathExists() throws {
        for (page, folder) in [
            ("Sources/README.md", "Sources"), ("CONTRIBUTING.md", ""), ("SECURITY.md", ""), ("STABILITY.md", ""),
            ("CHANGELOG.md", ""),
        ] {
            let start = Self.root.appendingPathComponent(folder)
            for match in try Self.text(page).matches(of: /`((?:\.\.\/)?[A-Za-z.][\w.+-]*\/[\w.+\/-]+)`/) {
                let path = start.appendingPathComponent(String(match.1)).standardizedFileURL.path
                // URLs and commit areas contain slashes too; a path begins with an existing folder.
                let first = start.appendingPathComponent(String(match.1.prefix { $0 != "/" }))
                guard FileManager.default.fileExists(atPath: first.path) else { continue }
                #expect(FileManager.default.fileExists(atPath: path), "\(page): \(match.1)")
            }
        }
    }

    // MARK: The check itself

    private static let sample = Pages(
        texts: [
            "Sources/Wire/Documentation/Wire.md":
                "# Wire format\n\n## Zone IDs\n\n```\n# no heading\n```\n\n## Shares\n",
            "Sources/ZoneMirror/ZoneMirror.docc/Sharing.md": "# Sharing\n\n## End\n",
            "Tests/Sharing.md": "# Sharing of tests\n",
        ]
    )

    @Test(
        "a citation of a page and heading that exist is accepted",
        arguments: [
            "/// See Wire.md, \"Zone IDs\".",
            "let a = 1  // See Wire.md, \"Shares\".",
            "/// Wire.md, \"Zone IDs\" and \"Shares\", and Sharing.md, \"End\".",
            "/// See Documentation/Wire.md, \"Shares\".",
            "    /// The first line, see\n    /// Wire.md,\n    /// \"Zone\n    /// IDs\".",
            "/// `Wire.md` has no heading here.",
            "let address = \"https://example.org/Missing.md\"",
            "let text = \"Missing.md, \\\"Nothing\\\"\"",
        ]
    )
    func goodCitations(text: String) {
        #expect(Self.sample.problems(inCommentsOf: text) == [])
    }

    @Test(
        "a citation that leads nowhere is reported with its line",
        arguments: [
            ("// See Wires.md, \"Shares\".", "1: there is no page Wires.md"),
            ("let a = 1\n/// See Wire.md, \"Share\".", "2: Wire.md has no heading \"Share\""),
            ("/// See Wire.md, \"no heading\".", "1: Wire.md has no heading \"no heading\""),
            ("/// See\n/// Wire.md, \"Shares\" and\n/// \"Ends\".", "2: Wire.md has no heading \"Ends\""),
            ("/// See Tests/Sharing.md, \"End\".", "1: Tests/Sharing.md has no heading \"End\""),
            ("/// See Errors/Wire.md, \"Shares\".", "1: there is no page Errors/Wire.md"),
            ("/// See missing.md.", "1: there is no page missing.md"),
            ("/// Wire reference 4.3.", "1: cite a page as File.md, \"Heading\", not as 'Wire reference'"),
            ("// as the SDK\n// reference says", "1: cite a page as File.md, \"Heading\", not as 'SDK reference'"),
        ]
    )
    func badCitations(text: String, problem: String) {
        #expect(Self.sample.problems(inCommentsOf: text) == [problem])
    }

    // MARK: Files

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// Returns the paths below the root in a fixed order, without hidden folders such as those of builds.
    fileprivate static func files(ending: String, in places: [String], of root: URL = Self.root) throws -> [String] {
        var found: [String] = []
        for place in places {
            if place.hasSuffix(ending) { found.append(place) }
            guard let walk = FileManager.default.enumerator(atPath: root.appendingPathComponent(place).path) else {
                continue
            }
            for case let path as String in walk {
                if path.split(separator: "/").last?.hasPrefix(".") == true { walk.skipDescendants() }
                if path.hasSuffix(ending) { found.append("\(place)/\(path)") }
            }
        }
        return found.sorted()
    }
}

/// The Markdown pages of a repository, and the check of comments that cite them.
private struct Pages {
    /// The headings of each page, by its path.
    private let headings: [String: Set<String>]

    init(texts: [String: String]) { headings = texts.mapValues { Set(Self.headings(of: $0)) } }

    init(in root: URL) throws {
        var texts: [String: String] = [:]
        let places = try FileManager.default.contentsOfDirectory(atPath: root.path).filter { !$0.hasPrefix(".") }
        for path in try CitationTests.files(ending: ".md", in: places, of: root) {
            texts[path] = try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
        }
        self.init(texts: texts)
    }

    /// Returns a page's headings of all levels, except for lines of code blocks that look like headings.
    static func headings(of text: String) -> [String] {
        var isCode = false
        var found: [String] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") { isCode.toggle() }
            guard !isCode, let match = line.firstMatch(of: /^#{1,6} +(.+?) *$/) else { continue }
            found.append(String(match.1.replacing("`", with: "")))
        }
        return found
    }

    /// Returns the faulty citations in a Swift file's comments, with their lines.
    func problems(inCommentsOf source: String) -> [String] {
        CommentBlock.all(in: source).flatMap { block in
            let citations = block.text.matches(of: /([\w.+\/-]*\w\.md)\b((?:(?:,? and|,) "[^"]+")*)/)
            let cited = citations.flatMap { match in
                problems(of: String(match.1), String(match.2)).map { (match.range.lowerBound, $0) }
            }
            let unnamed = block.text.matches(
                of: /\b(?:[Ww]ire|[Ee]rrors|[Nn]otices|[Rr]eliability|[Ss]chema|[Ee]xperience|SDK) reference\b/
            )
            let others = unnamed.map {
                ($0.range.lowerBound, "cite a page as File.md, \"Heading\", not as '\($0.output)'")
            }
            return (cited + others).map { "\(block.line(of: $0)): \($1)" }
        }
    }

    private func problems(of name: String, _ quoted: String) -> [String] {
        let meant = headings.filter { $0.key == name || $0.key.hasSuffix("/\(name)") }
        guard !meant.isEmpty else { return ["there is no page \(name)"] }
        return quoted.matches(of: /"([^"]+)"/).map { String($0.1) }
            .filter { heading in !meant.values.contains { $0.contains(heading) } }
            .map { "\(name) has no heading \"\($0)\"" }
    }
}

/// Consecutive comment lines as one text, because a citation may continue on the next line.
private struct CommentBlock {
    private(set) var text = ""
    /// The UTF-8 offset at which each line begins in the text, and the line's number in the file.
    private var starts: [(offset: Int, line: Int)] = []

    private mutating func add(_ comment: Substring, line: Int) {
        if !text.isEmpty { text += " " }
        starts.append((text.utf8.count, line))
        text += comment.trimmingCharacters(in: .whitespaces)
    }

    func line(of index: String.Index) -> Int {
        let offset = text.utf8.distance(from: text.startIndex, to: index)
        return starts.last { $0.offset <= offset }?.line ?? 0
    }

    /// Returns the comment blocks of a file; for speed, only those with a word that the check looks for.
    static func all(in source: String) -> [CommentBlock] {
        let words = [".md", "reference"]
        guard words.contains(where: source.contains) else { return [] }
        var blocks: [CommentBlock] = []
        var isOpen = false
        for (index, line) in source.components(separatedBy: "\n").enumerated() {
            let code = line.prefix { $0 == " " }
            let isAlone = line.dropFirst(code.count).hasPrefix("//")
            // A comment behind code follows two blanks, as formatted; a single blank or none may be part of a URL in a
            // string.
            guard let start = isAlone ? code.endIndex : line.range(of: "  //")?.lowerBound else {
                isOpen = false
                continue
            }
            if !(isOpen && isAlone) { blocks.append(CommentBlock()) }
            blocks[blocks.count - 1].add(line[start...].drop { $0 == " " || $0 == "/" }, line: index + 1)
            isOpen = isAlone
        }
        return blocks.filter { block in words.contains(where: block.text.contains) }
    }
}
