/// A QR code by ISO/IEC 18004: byte mode, error correction level M, versions 1 to 12 (up to 287 bytes).
///
/// For terminals; `demo/qr.js` draws the same codes in the browser.
struct QRCode: Equatable {
    /// Rows of modules, `true` for dark, without the quiet zone.
    let modules: [[Bool]]

    /// - Returns: `nil` if the text is too long.
    init?(_ text: String) {
        guard let frame = Frame(text) else { return nil }
        let grid = Grid(version: frame.version)
        let candidates = (0..<8).map { grid.filled(with: frame.bits, mask: $0) }
        guard let best = candidates.min(by: { Self.penalty($0) < Self.penalty($1) }) else { return nil }
        modules = best
    }

    /// Returns lines of half blocks, two rows of modules each, with a quiet zone of two modules.
    ///
    /// With `hasColour`, dark modules are black on white. Otherwise light modules are drawn in the terminal's text
    /// colour, which fits terminals with a dark background.
    func lines(hasColour: Bool) -> [String] {
        let quietZone = 2
        let size = modules.count + 2 * quietZone
        func isDark(_ x: Int, _ y: Int) -> Bool {
            let (column, row) = (x - quietZone, y - quietZone)
            return modules.indices.contains(row) && modules.indices.contains(column) && modules[row][column]
        }
        return stride(from: 0, to: size, by: 2).map { y in
            let blocks = (0..<size).map { x -> Character in
                // A last odd row is filled up with the quiet zone.
                switch (isDark(x, y) == hasColour, isDark(x, y + 1) == hasColour) {
                case (true, true): "█"
                case (true, false): "▀"
                case (false, true): "▄"
                case (false, false): " "
                }
            }
            return hasColour ? "\u{1B}[30;107m\(String(blocks))\u{1B}[0m" : String(blocks)
        }
    }

    // MARK: Data

    /// For each version: error correction bytes per block, and data bytes of each block.
    private static let blocks: [(correction: Int, data: [Int])] = [
        (10, [16]), (16, [28]), (26, [44]), (18, [32, 32]), (24, [43, 43]), (16, [27, 27, 27, 27]),
        (18, [31, 31, 31, 31]), (22, [38, 38, 39, 39]), (22, [36, 36, 36, 37, 37]), (26, [43, 43, 43, 43, 44]),
        (30, [50, 51, 51, 51, 51]), (22, [36, 36, 36, 36, 36, 36, 37, 37]),
    ]

    /// The smallest version that holds a text, and the bits that fill the code: data and error correction.
    private struct Frame {
        let version: Int
        let bits: [Bool]

        init?(_ text: String) {
            let bytes = Array(text.utf8)
            // Up to version 9, the length has one byte. Mode and length take another half byte, the end of the data one.
            let fitting = QRCode.blocks.indices.first {
                QRCode.blocks[$0].data.reduce(0, +) >= bytes.count + ($0 < 9 ? 2 : 3)
            }
            guard let fitting else { return nil }
            version = fitting + 1
            let (correction, sizes) = QRCode.blocks[fitting]
            var bits: [Bool] = []
            func put(_ value: Int, _ count: Int) {
                for bit in stride(from: count - 1, through: 0, by: -1) { bits.append((value >> bit) & 1 == 1) }
            }
            put(4, 4)
            put(bytes.count, version < 10 ? 8 : 16)
            for byte in bytes { put(Int(byte), 8) }
            let capacity = sizes.reduce(0, +) * 8
            put(0, min(4, capacity - bits.count))
            put(0, (8 - bits.count % 8) % 8)
            var filler = 0xEC
            while bits.count < capacity {
                put(filler, 8)
                filler ^= 0xEC ^ 0x11
            }
            let data = stride(from: 0, to: bits.count, by: 8).map { start in
                bits[start..<start + 8].reduce(UInt8(0)) { $0 << 1 | ($1 ? 1 : 0) }
            }
            var start = 0
            let dataBlocks = sizes.map { size in
                defer { start += size }
                return Array(data[start..<start + size])
            }
            let corrections = dataBlocks.map { ReedSolomon.correction(of: $0, count: correction) }
            self.bits = (Self.interleaved(dataBlocks) + Self.interleaved(corrections)).flatMap { byte in
                stride(from: 7, through: 0, by: -1).map { (byte >> $0) & 1 == 1 }
            }
        }

        /// Returns the first byte of each block, then the second of each, and so on.
        private static func interleaved(_ blocks: [[UInt8]]) -> [UInt8] {
            (0..<(blocks.map(\.count).max() ?? 0)).flatMap { index in
                blocks.compactMap { $0.indices.contains(index) ? $0[index] : nil }
            }
        }
    }

    /// Error correction bytes, with arithmetic in GF(256) by tables of powers and logarithms.
    enum ReedSolomon {
        private static let tables: (power: [UInt8], log: [Int]) = {
            var (power, log) = ([UInt8](repeating: 0, count: 510), [Int](repeating: 0, count: 256))
            var value = 1
            for exponent in 0..<255 {
                power[exponent] = UInt8(value)
                power[exponent + 255] = UInt8(value)
                log[value] = exponent
                value = value < 128 ? value * 2 : (value * 2) ^ 0x11D
            }
            return (power, log)
        }()

        private static func times(_ one: UInt8, _ other: UInt8) -> UInt8 {
            one == 0 || other == 0 ? 0 : tables.power[tables.log[Int(one)] + tables.log[Int(other)]]
        }

        /// Returns the remainder of the data divided by the generator polynomial.
        static func correction(of data: [UInt8], count: Int) -> [UInt8] {
            var divisor: [UInt8] = [1]
            for root in 0..<count {
                var next = divisor + [0]
                for (index, factor) in divisor.enumerated() { next[index + 1] ^= times(factor, tables.power[root]) }
                divisor = next
            }
            var rest = data + [UInt8](repeating: 0, count: count)
            for index in data.indices {
                let lead = rest[index]
                for (offset, factor) in divisor.enumerated() { rest[index + offset] ^= times(factor, lead) }
            }
            return Array(rest.suffix(count))
        }
    }

    // MARK: Drawing

    /// The function patterns of a version.
    ///
    /// Modules for data are `nil`.
    private struct Grid {
        /// For each version: the coordinates of the alignment patterns' centres, for both axes.
        private static let alignment: [[Int]] = [
            [], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50],
            [6, 30, 54], [6, 32, 58],
        ]

        private let version: Int
        private let size: Int
        private var modules: [[Bool?]]

        init(version: Int) {
            self.version = version
            let size = version * 4 + 17
            self.size = size
            modules = Array(repeating: Array(repeating: nil, count: size), count: size)
            for (left, top) in [(0, 0), (size - 7, 0), (0, size - 7)] {
                for y in -1...7 {
                    for x in -1...7 {
                        let ring = max(abs(x - 3), abs(y - 3))
                        put(left + x, top + y, ring != 2 && ring != 4)
                    }
                }
            }
            let centres = Self.alignment[version - 1]
            for (row, centreY) in centres.enumerated() {
                for (column, centreX) in centres.enumerated() {
                    // Three corners have finder patterns instead.
                    let last = centres.count - 1
                    if (row == 0 && (column == 0 || column == last)) || (row == last && column == 0) { continue }
                    for y in -2...2 {
                        for x in -2...2 { put(centreX + x, centreY + y, max(abs(x), abs(y)) != 1) }
                    }
                }
            }
            for place in 8..<size - 8 {
                put(place, 6, place.isMultiple(of: 2))
                put(6, place, place.isMultiple(of: 2))
            }
            // Reserves the modules of format and version, which are written again for each mask.
            writeFormat(mask: 0)
        }

        /// Sets a module unless an earlier pattern has set it.
        private mutating func put(_ x: Int, _ y: Int, _ isDark: Bool) {
            guard (0..<size).contains(x), (0..<size).contains(y), modules[y][x] == nil else { return }
            modules[y][x] = isDark
        }

        /// Returns `value` followed by the BCH remainder of its division by `polynomial`, which has `degree` bits.
        private func protected(_ value: Int, by polynomial: Int, degree: Int, length: Int) -> Int {
            var rest = value << degree
            for bit in stride(from: length - 1, through: degree, by: -1) where (rest >> bit) & 1 == 1 {
                rest ^= polynomial << (bit - degree)
            }
            return value << degree | rest
        }

        private mutating func writeFormat(mask: Int) {
            // Level M is 0.
            let format = protected(mask, by: 0x537, degree: 10, length: 15) ^ 0x5412
            let along = [0, 1, 2, 3, 4, 5, 7, 8]
            for bit in 0..<15 {
                let isDark = (format >> bit) & 1 == 1
                // The first copy: beside the upper left finder. The second copy: beside the two other finders.
                if bit < 8 {
                    modules[along[bit]][8] = isDark
                    modules[8][size - 1 - bit] = isDark
                } else {
                    modules[8][along[14 - bit]] = isDark
                    modules[size - 15 + bit][8] = isDark
                }
            }
            modules[size - 8][8] = true
            guard version >= 7 else { return }
            let bits = protected(version, by: 0x1F25, degree: 12, length: 18)
            for bit in 0..<18 {
                let isDark = (bits >> bit) & 1 == 1
                let (far, near) = (size - 11 + bit % 3, bit / 3)
                modules[near][far] = isDark
                modules[far][near] = isDark
            }
        }

        private static func isFlipped(_ mask: Int, _ x: Int, _ y: Int) -> Bool {
            switch mask {
            case 0: (x + y).isMultiple(of: 2)
            case 1: y.isMultiple(of: 2)
            case 2: x.isMultiple(of: 3)
            case 3: (x + y).isMultiple(of: 3)
            case 4: (y / 2 + x / 3).isMultiple(of: 2)
            case 5: (x * y) % 2 + (x * y) % 3 == 0
            case 6: ((x * y) % 2 + (x * y) % 3).isMultiple(of: 2)
            default: ((x + y) % 2 + (x * y) % 3).isMultiple(of: 2)
            }
        }

        /// Returns the finished code with one of the eight masks.
        func filled(with bits: [Bool], mask: Int) -> [[Bool]] {
            var grid = self
            var rest = bits[...]
            var right = size - 1
            var isUp = true
            while right > 0 {
                // The column of the timing pattern is skipped.
                if right == 6 { right -= 1 }
                for step in 0..<size {
                    let y = isUp ? size - 1 - step : step
                    for x in [right, right - 1] where modules[y][x] == nil {
                        grid.modules[y][x] = (rest.popFirst() ?? false) != Self.isFlipped(mask, x, y)
                    }
                }
                right -= 2
                isUp.toggle()
            }
            grid.writeFormat(mask: mask)
            return grid.modules.map { $0.map { $0 ?? false } }
        }
    }

    /// Returns the penalty of a mask: long runs, 2×2 blocks, patterns like a finder, and an imbalance of dark and light.
    private static func penalty(_ grid: [[Bool]]) -> Int {
        let size = grid.count
        var sum = 0
        let finder: [[Bool]] = ["10111010000", "00001011101"].map { $0.map { $0 == "1" } }
        for line in grid + grid.indices.map({ x in grid.map { $0[x] } }) {
            var length = 0
            for (index, isDark) in line.enumerated() {
                length = index > 0 && isDark == line[index - 1] ? length + 1 : 1
                if length == 5 { sum += 3 } else if length > 5 { sum += 1 }
            }
            for start in 0...(size - 11) where finder.contains(Array(line[start..<start + 11])) { sum += 40 }
        }
        for y in 1..<size {
            for x in 1..<size {
                let isDark = grid[y][x]
                if isDark == grid[y - 1][x], isDark == grid[y][x - 1], isDark == grid[y - 1][x - 1] { sum += 3 }
            }
        }
        let dark = grid.reduce(0) { $0 + $1.count { $0 } }
        return sum + 10 * (abs(dark * 20 - size * size * 10) / (size * size))
    }
}
