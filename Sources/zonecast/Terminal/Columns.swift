extension StringProtocol {
    /// How many columns of a terminal the text takes: two for a character of East Asian writing and for an emoji.
    var columns: Int { reduce(0) { $0 + $1.columns } }

    /// As much of the beginning as has room in so many columns.
    func prefix(columns: Int) -> SubSequence {
        var left = columns
        return prefix { character in
            left -= character.columns
            return left >= 0
        }
    }
}

extension Character {
    /// Terminals know no better than one or two.
    fileprivate var columns: Int {
        guard let first = unicodeScalars.first, first.value >= 0x1100 else { return 1 }
        let isEmoji = first.properties.isEmojiPresentation || unicodeScalars.contains("\u{FE0F}")
        return isEmoji || Self.wide.contains { $0.contains(first.value) } ? 2 : 1
    }

    /// What Unicode's annex 11 calls wide or full width, in blocks.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
        0xFE30...0xFE6F, 0xFF01...0xFF60, 0xFFE0...0xFFE6, 0x1_7000...0x1_8CFF, 0x1_AFF0...0x1_B2FF,
        0x2_0000...0x3_FFFD,
    ]
}

extension Int {
    /// `1 asset`, `2 assets`.
    func of(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
