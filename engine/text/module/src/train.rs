//! BPE training: trains a byte-level BPE in the form of GPT-2's. The trainer of the tokenizers crate takes
//! time proportional to the square of a word's length and cannot be interrupted, so the merges are computed
//! here. Each merge visits only the places of its pair. The result is the same: of pairs with equal counts,
//! the pair with the smaller ids is merged first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    TokenizerImpl,
};

use crate::contract::{Failure, Outcome, Poll, Source};

type ByteLevelBpe = TokenizerImpl<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>;

/// Returns the tokenizer.json of `vocabulary` tokens, `specials` first.
pub fn train_bpe(texts: &Source, vocabulary: u32, specials: &str, poll: Poll) -> Outcome<String> {
    let specials: Vec<String> = serde_json::from_str(specials).map_err(Failure::invalid)?;
    let bytes = ByteLevel::new(false, true, true);
    let words = count_words(texts, &bytes, poll)?;
    let mut tokens = Tokens::new(&specials);
    let merges = Pairs::new(&words, &tokens, poll)?.learn(vocabulary as usize, &mut tokens)?;
    let ids: Vocab = tokens.ids.into_iter().collect();
    let model = BPE::builder().vocab_and_merges(ids, merges).build().map_err(Failure::invalid)?;
    let mut tokenizer: ByteLevelBpe = TokenizerImpl::new(model);
    tokenizer
        .with_pre_tokenizer(Some(bytes))
        .with_decoder(Some(bytes))
        .with_post_processor(Some(ByteLevel::new(false, false, true)));
    let special_tokens: Vec<AddedToken> =
        specials.into_iter().map(|name| AddedToken::from(name, true)).collect();
    tokenizer.add_special_tokens(special_tokens).map_err(Failure::invalid)?;
    tokenizer.to_string(true).map_err(Failure::invalid)
}

/// Counts the distinct words of the texts, in the characters that represent bytes.
fn count_words(texts: &Source, bytes: &ByteLevel, poll: Poll) -> Outcome<HashMap<String, i64>> {
    let mut words: HashMap<String, i64> = HashMap::new();
    while let Some(text) = texts.next()? {
        poll.check()?;
        let mut split = PreTokenizedString::from(text);
        bytes.pre_tokenize(&mut split).map_err(Failure::invalid)?;
        for (word, _, _) in split.get_splits(OffsetReferential::Original, OffsetType::None) {
            match words.get_mut(word) {
                Some(count) => *count += 1,
                None => _ = words.insert(word.to_owned(), 1),
            }
        }
    }
    Ok(words)
}

/// The vocabulary: special tokens, then the 256 bytes, then the merged tokens.
struct Tokens {
    names: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Tokens {
    fn new(specials: &[String]) -> Self {
        let mut tokens = Tokens { names: Vec::new(), ids: HashMap::new() };
        let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
        alphabet.sort_unstable();
        for name in specials.iter().cloned().chain(alphabet.into_iter().map(String::from)) {
            tokens.id(name);
        }
        tokens
    }

    /// Returns the id of a token, which is added if it is new.
    fn id(&mut self, name: String) -> u32 {
        *self.ids.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            (self.names.len() - 1) as u32
        })
    }
}

const NONE: u32 = u32::MAX;
/// Places between two polls.
const POLLED: usize = 1 << 16;

type Pair = (u32, u32);

#[derive(Default)]
struct Found {
    count: i64,
    /// Places of the first token of the pair. Some of them may hold another pair after later merges.
    places: Vec<u32>,
}

/// All words as lists of tokens, one after the other in the same arrays. A place is an index into them.
struct Pairs {
    token: Vec<u32>,
    previous: Vec<u32>,
    next: Vec<u32>,
    /// Number of occurrences of the word at a place.
    weight: Vec<i64>,
    found: HashMap<Pair, Found>,
    /// Pairs sorted by count. An entry is valid while its count equals the count in `found`.
    queue: BinaryHeap<(i64, Reverse<Pair>)>,
    poll: Poll,
}

impl Pairs {
    fn new(words: &HashMap<String, i64>, tokens: &Tokens, poll: Poll) -> Outcome<Self> {
        let mut pairs = Pairs {
            token: Vec::new(),
            previous: Vec::new(),
            next: Vec::new(),
            weight: Vec::new(),
            found: HashMap::new(),
            queue: BinaryHeap::new(),
            poll,
        };
        let ids: HashMap<char, u32> =
            ByteLevel::alphabet().into_iter().map(|c| (c, tokens.ids[&String::from(c)])).collect();
        for (word, &weight) in words {
            let begin = pairs.token.len();
            for c in word.chars() {
                let place = pairs.token.len();
                if place.is_multiple_of(POLLED) {
                    poll.check()?;
                }
                if place >= NONE as usize {
                    return Err(Failure::invalid("the different words of the texts have more than 4 GiB"));
                }
                pairs.token.push(ids[&c]);
                pairs.previous.push(if place == begin { NONE } else { place as u32 - 1 });
                pairs.next.push(place as u32 + 1);
                pairs.weight.push(weight);
                if place > begin {
                    pairs.add(place as u32 - 1, weight);
                }
            }
            if pairs.token.len() > begin {
                *pairs.next.last_mut().unwrap_or(&mut 0) = NONE;
            }
        }
        pairs.queue = pairs.found.iter().map(|(&pair, found)| (found.count, Reverse(pair))).collect();
        Ok(pairs)
    }

    /// Returns the pair whose first token is at `place`, which must have a next place.
    fn pair_at(&self, place: u32) -> Pair {
        (self.token[place as usize], self.token[self.next[place as usize] as usize])
    }

    fn add(&mut self, place: u32, weight: i64) {
        let found = self.found.entry(self.pair_at(place)).or_default();
        found.count += weight;
        found.places.push(place);
    }

    fn subtract(&mut self, place: u32, weight: i64) {
        if let Some(found) = self.found.get_mut(&self.pair_at(place)) {
            found.count -= weight;
        }
    }

    /// Merges the most frequent pair until the vocabulary is full, or no pair is left.
    fn learn(mut self, vocabulary: usize, tokens: &mut Tokens) -> Outcome<Vec<(String, String)>> {
        let mut merges = Vec::new();
        let mut merged = HashSet::new();
        while tokens.names.len() < vocabulary {
            let Some((count, Reverse(pair))) = self.queue.pop() else { break };
            let Some(found) = self.found.get_mut(&pair) else { continue };
            if found.count != count {
                // A pair whose count fell is queued again; a pair whose count grew already has another entry.
                if 0 < found.count && found.count < count {
                    self.queue.push((found.count, Reverse(pair)));
                }
                continue;
            }
            let places = std::mem::take(&mut found.places);
            let (first, second) =
                (tokens.names[pair.0 as usize].clone(), tokens.names[pair.1 as usize].clone());
            let id = tokens.id(format!("{first}{second}"));
            if merged.insert(pair) {
                merges.push((first, second));
            }
            self.merge(pair, places, id)?;
        }
        Ok(merges)
    }

    fn merge(&mut self, pair: Pair, mut places: Vec<u32>, id: u32) -> Outcome<()> {
        self.poll.check()?;
        places.sort_unstable();
        let mut grown = HashSet::new();
        for (i, &place) in places.iter().enumerate() {
            if i % POLLED == POLLED - 1 {
                self.poll.check()?;
            }
            let at = place as usize;
            let second = self.next[at];
            if second == NONE || self.pair_at(place) != pair {
                continue;
            }
            let (before, behind, weight) = (self.previous[at], self.next[second as usize], self.weight[at]);
            if before != NONE {
                self.subtract(before, weight);
            }
            if behind != NONE {
                self.subtract(second, weight);
                self.previous[behind as usize] = place;
            }
            self.token[at] = id;
            self.next[at] = behind;
            // The second place no longer belongs to a word.
            self.token[second as usize] = NONE;
            self.next[second as usize] = NONE;
            for changed in [before, place] {
                if changed != NONE && self.next[changed as usize] != NONE {
                    self.add(changed, weight);
                    grown.insert(self.pair_at(changed));
                }
            }
        }
        self.found.remove(&pair);
        for pair in grown {
            if let Some(found) = self.found.get(&pair) {
                self.queue.push((found.count, Reverse(pair)));
            }
        }
        Ok(())
    }
}
