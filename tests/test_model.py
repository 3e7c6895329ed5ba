"""Parameters, bytes and arithmetic from shapes, against counts that others published."""

import re
from dataclasses import fields, replace
from importlib.resources import files

import pytest
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lib import footprint
from lib import model as models
from lib.model import Model, catalogue, model

NAMES = list(catalogue())
FACTS = {"source": "somewhere", "where": "Table 1", "date": "2024-01"}
SMALL = Model(
    name="small", layers=2, hidden_size=8, query_heads=4, kv_heads=2, head_dim=2, ffn_size=16, ffn_matrices=3,
    vocab_size=10, tied=False, norm="rms", norms_per_layer=2, **FACTS,
)  # fmt: skip
SMALL_MOE = replace(SMALL, ffn_size=0, experts=8, experts_per_token=2, expert_ffn_size=4)
SMALL_MLA = replace(
    SMALL, kv_heads=0, head_dim=0, kv_lora_rank=6, rope_head_dim=2, nope_head_dim=3, value_head_dim=5
)

some_models = st.sampled_from([*catalogue().values(), SMALL, SMALL_MOE, SMALL_MLA])
batch_sizes = st.integers(1, 100_000)
contexts = st.integers(0, 1_000_000)


# Totals that others printed


@pytest.mark.parametrize("name", [name for name in NAMES if model(name).published_params])
def test_the_shapes_multiply_out_to_the_published_total(name):
    """Column published_where of data/models.csv says who printed each total."""
    assert models.params(model(name)) == model(name).published_params


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("Llama-2-7B", 6_738_415_616),
        ("Llama-2-13B", 13_015_864_320),
        ("Llama-2-70B", 68_976_648_192),
        ("Llama-3-8B", 8_030_261_248),
        ("Llama-3-70B", 70_553_706_496),
        ("Mixtral-8x7B", 46_702_792_704),
        ("Qwen3-4B", 4_022_468_096),
    ],
)
def test_the_models_the_report_leans_on_have_their_published_totals(name, published):
    """kerashub presets for 7B, 8B and Mixtral; huggingfaceapi for the others.

    The Hugging Face totals of Llama-2 contain 64 rotary constants per layer that
    are no parameters: 13,015,866,880 and 68,976,653,312.
    """
    assert models.params(model(name)) == published


@pytest.mark.parametrize(
    ("layers", "hidden_size", "heads", "published"), [(12, 768, 12, 125_237_760), (24, 2048, 32, 1_315_753_984)]
)
def test_positions_biases_and_layer_norms_of_opt_count_as_published(layers, hidden_size, heads, published):
    """kerashub, opt_presets.py: 125M and 1.3B, with 2048 position rows where the original keeps 2050."""
    opt = replace(
        model("OPT-13B"), layers=layers, hidden_size=hidden_size, query_heads=heads, kv_heads=heads,
        head_dim=hidden_size // heads, ffn_size=4 * hidden_size, positions=2048,
    )  # fmt: skip
    assert models.params(opt) == published


def test_deepseek_v3_has_671_billion_parameters_without_its_prediction_module():
    """deepseek2024weights: 671B in the main model; 685B on the page with the module."""
    assert round(models.params(model("DeepSeek-V3")) / 1e9) == 671


def test_gpt_3_has_175_billion_parameters():
    """brown2020gpt3, Table 2.1, prints 175.0B; its own shapes give 174.6B."""
    assert_allclose(models.params(model("GPT-3-175B")), 175.0e9, rtol=3e-3)


def test_mixtral_uses_12_879_925_248_parameters_per_token():
    """Input table included; jiang2024mixtral prints 13B."""
    assert models.active_params(model("Mixtral-8x7B")) == 12_879_925_248


@pytest.mark.parametrize(
    ("name", "billions", "digits"), [("Mixtral-8x22B", 39, 0), ("Qwen3-235B-A22B", 22, 0)]
)
def test_active_parameters_with_the_input_table_match_the_cards(name, billions, digits):
    """Model card of Mixtral-8x22B: 39B active of 141B; qwen2025qwen3, Table 2: 22B of 235B."""
    assert round(models.active_params(model(name)) / 1e9, digits) == billions


@pytest.mark.parametrize(
    ("name", "billions", "digits"), [("DeepSeek-V3", 36.6, 1), ("gpt-oss-120b", 5.13, 2), ("gpt-oss-20b", 3.61, 2)]
)
def test_active_parameters_without_the_input_table_match_the_cards(name, billions, digits):
    """deepseek2024weights: 36.6B, output head included; openai2025gptoss, Table 1: 5.13B and 3.61B."""
    assert round(footprint.linear_flop_per_token(model(name)) / 2e9, digits) == billions


def test_a_tied_table_counts_once():
    assert models.params(SMALL) - models.params(replace(SMALL, tied=True)) == 10 * 8


def test_a_dense_model_uses_all_its_parameters():
    assert models.active_params(SMALL) == models.params(SMALL)


# The count, term by term, on a model small enough to add up by hand


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({}, 0),
        ({"vocab_size": 11}, 2 * 8),
        ({"positions": 3}, 3 * 8),
        ({"norm": "layer"}, 5 * 8),
        ({"norms_per_layer": 4}, 2 * 2 * 8),
        ({"qk_norm": True}, 2 * 2 * 2),
        ({"biases": ("qkv",)}, 2 * (4 + 2 + 2) * 2),
        ({"biases": ("output",)}, 2 * 8),
        ({"biases": ("sink",)}, 2 * 4),
        ({"biases": ("mlp",)}, 2 * (16 + 16 + 8)),
        ({"biases": ("head",)}, 10),
        ({"ffn_matrices": 2}, -2 * 8 * 16),
        ({"kv_heads": 4}, 2 * 2 * 2 * 2 * 8),
    ],
)
def test_each_part_of_a_small_model_adds_what_a_hand_count_says(change, more):
    """Two tables of 10 x 8; two layers of attention 8 x (16 + 8), network 3 x 8 x 16, two norms; a last norm."""
    by_hand = 2 * 10 * 8 + 2 * (8 * (16 + 8) + 3 * 8 * 16 + 2 * 8) + 8
    assert models.params(replace(SMALL, **change)) == by_hand + more


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({}, 0),
        ({"shared_experts": 1}, 2 * 3 * 8 * 4),
        ({"dense_layers": 1, "ffn_size": 16}, 3 * 8 * 16 - 8 * 8 - 8 * 3 * 8 * 4),
        ({"biases": ("router",)}, 2 * 8),
        ({"biases": ("mlp",)}, 2 * 8 * (4 + 4 + 8)),
    ],
)
def test_each_part_of_a_small_mixture_adds_what_a_hand_count_says(change, more):
    """As above, but each network is a router 8 x 8 and eight experts of 3 x 8 x 4."""
    by_hand = 2 * 10 * 8 + 2 * (8 * (16 + 8) + 8 * 8 + 8 * 3 * 8 * 4 + 2 * 8) + 8
    assert models.params(replace(SMALL_MOE, **change)) == by_hand + more


def test_latent_attention_adds_what_a_hand_count_says():
    """Queries 8 x 4(2+3), latent 8 x (6+2) and its norm, keys and values 6 x 4(3+5), output 4 x 5 x 8."""
    attention = 8 * 4 * (2 + 3) + 8 * (6 + 2) + 6 + 6 * 4 * (3 + 5) + 4 * 5 * 8
    assert models.params(SMALL_MLA) == 2 * 10 * 8 + 2 * (attention + 3 * 8 * 16 + 2 * 8) + 8
    compressed = replace(SMALL_MLA, q_lora_rank=7)
    query = 8 * 7 + 7 + 7 * 4 * (2 + 3)
    assert models.params(compressed) - models.params(SMALL_MLA) == 2 * (query - 8 * 4 * (2 + 3))


@pytest.mark.parametrize(
    ("name", "kind"), [("Llama-2-7B", "MHA"), ("Llama-3-8B", "GQA"), ("Falcon-7B", "MQA"), ("DeepSeek-V3", "MLA")]
)
def test_head_counts_tell_the_kind_of_attention(name, kind):
    assert models.attention_kind(model(name)) == kind


# The catalogue


def test_the_catalogue_holds_the_models_the_report_quotes():
    wanted = {
        "Llama-2-7B", "Llama-2-13B", "Llama-2-70B", "Llama-3-8B", "Llama-3-70B", "OPT-13B", "Mistral-7B",
        "Mixtral-8x7B", "Qwen3-32B", "Qwen3-30B-A3B", "CodeLlama-34B", "DeepSeek-V3", "Qwen-72B",
        "internlm-20b", "phi-2", "Qwen2.5-7B",
    }  # fmt: skip
    assert wanted <= {*NAMES}


def test_every_source_is_in_the_bibliography():
    keys = set(re.findall(r"@\w+\{([^,]+),", (files("lib") / "data" / "models.bib").read_text("utf-8")))
    for subject in catalogue().values():
        assert subject.source in keys
        assert not subject.published_where or subject.published_where.split(":")[0] in keys


def test_the_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        catalogue()["mine"] = SMALL
    with pytest.raises(AttributeError):
        model("Llama-3-8B").layers = 33


def test_an_unknown_name_is_answered_with_close_ones():
    with pytest.raises(ValueError, match=r"name must be one of .*Llama-3-8B.*, got 'Llama-3-8b'"):
        model("Llama-3-8b")


MOE = {"experts": "8", "experts_per_token": "2", "expert_ffn_size": "4"}
CELLS = {"name": "small", "layers": "2", "hidden_size": "8", "query_heads": "4", "kv_heads": "2", "head_dim": "2",
         "ffn_size": "16", "ffn_matrices": "3", "vocab_size": "10", "tied": "false", "norm": "rms",
         "norms_per_layer": "2", **FACTS}  # fmt: skip


def written(folder, *rows):
    header = [field.name for field in fields(Model)]
    lines = [header, *([row.get(name, "") for name in header] for row in rows)]
    path = folder / "planted.csv"
    path.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_written_row_reads_back_as_the_same_record(tmp_path):
    assert models.models_in(written(tmp_path, CELLS)) == {"small": SMALL}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"layers": "0"}, "layers must be at least 1, got 0"),
        ({"layers": "2.5"}, "layers must be a number, got '2.5'"),
        ({"hidden_size": ""}, "hidden_size must not be empty"),
        ({"vocab_size": "-10"}, "vocab_size must be at least 1, got -10"),
        ({"positions": "-1"}, "positions must be at least 0, got -1"),
        ({"tied": "yes"}, "tied must be one of true, false, got 'yes'"),
        ({"norm": "batch"}, "norm must be one of rms, layer, got 'batch'"),
        ({"biases": "qkv value"}, "biases must be one of .*, got 'value'"),
        ({"ffn_matrices": "4"}, "ffn_matrices must be at most 3, got 4"),
        ({"ffn_matrices": "1"}, "ffn_matrices must be at least 2, got 1"),
        ({"kv_heads": ""}, "kv_heads must be at least 1, because kv_lora_rank is 0, got 0"),
        ({"kv_heads": "3"}, "kv_heads must divide 4 query_heads, got 3"),
        ({"ffn_size": ""}, "ffn_size must be above 0 just when experts is 0 or dense_layers above 0, got 0"),
        ({"experts": "8"}, "experts_per_token must be at least 1, because experts is above 0, got 0"),
        ({"shared_experts": "1"}, "shared_experts must be 0, because experts is 0, got 1"),
        (MOE | {"experts_per_token": "9"}, "experts_per_token must be at most 8, got 9"),
        (MOE, "ffn_size must be above 0 just when experts is 0 or dense_layers above 0, got 16"),
        (MOE | {"dense_layers": "2"}, "dense_layers must be at most 1, got 2"),
        ({"rope_head_dim": "2"}, "rope_head_dim must be 0, because kv_lora_rank is 0, got 2"),
        ({"kv_lora_rank": "6"}, "rope_head_dim must be at least 1, because kv_lora_rank is above 0, got 0"),
        ({"window": "4096"}, "window must be finite just when windowed_layers is above 0, got 4096"),
        ({"windowed_layers": "2"}, "window must be finite just when windowed_layers is above 0, got inf"),
        ({"window": "4096", "windowed_layers": "3"}, "windowed_layers must be at most 2, got 3"),
        ({"window": "0", "windowed_layers": "2"}, "window must be at least 1, got 0"),
        ({"window": "nan", "windowed_layers": "2"}, "window must be a number, got nan"),
        ({"published_params": "100"}, "published_where must go with published_params, got ''"),
        ({"source": ""}, "source must not be empty"),
        ({"date": " "}, "date must be a text that is not empty, got ' '"),
    ],
)  # fmt: skip
def test_a_bad_row_is_refused_by_file_row_and_rule(tmp_path, change, rule):
    path = written(tmp_path, CELLS, CELLS | {"name": "bad"} | change)
    with pytest.raises(ValueError, match=f"planted.csv row 3: {rule}"):
        models.models_in(path)


def test_a_name_may_stand_in_one_row_only(tmp_path):
    with pytest.raises(ValueError, match=r"planted.csv row 3: name must be new, got 'small'"):
        models.models_in(written(tmp_path, CELLS, CELLS))


def test_a_short_row_is_refused(tmp_path):
    path = written(tmp_path, CELLS)
    path.write_text(path.read_text("utf-8") + "small,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"planted.csv row 3: cells must be \d+, got 2"):
        models.models_in(path)


@pytest.mark.parametrize("edit", [("layers", "levels"), ("name,", ""), ("name,", "name,name,")])
def test_a_wrong_header_is_refused(tmp_path, edit):
    path = written(tmp_path, CELLS)
    path.write_text(path.read_text("utf-8").replace(*edit, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=r"planted.csv row 1: columns must be those of Model"):
        models.models_in(path)


def test_latent_attention_takes_no_attention_biases_and_no_head_norm():
    with pytest.raises(ValueError, match="biases must spare latent attention"):
        replace(SMALL_MLA, biases=("qkv",))
    with pytest.raises(ValueError, match="qk_norm must be false with latent attention"):
        replace(SMALL_MLA, qk_norm=True)
    with pytest.raises(ValueError, match="tied must be true or false, got 1"):
        replace(SMALL, tied=1)


# Bad arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.params("Llama-3-8B"), "model must be a Model, got 'Llama-3-8B'"),
        (lambda: models.active_params(8e9), "model must be a Model, got 8"),
        (lambda: models.attention_kind(None), "model must be a Model, got None"),
    ],
)
def test_a_bad_argument_is_refused_by_name_rule_and_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_other_key_heads_change_the_cache_and_the_attention_and_nothing_else():
    """With all 64 key heads Llama-3-70B caches eight times as much; 576 numbers stand for 2 x 128 x 128."""
    large = model("Llama-3-70B")
    wide = models.with_key_heads(large, 64)
    assert (wide.name, models.attention_kind(wide)) == ("Llama-3-70B with 64 key heads", "MHA")
    assert footprint.kv_bytes_per_token(wide) == 8 * footprint.kv_bytes_per_token(large)
    assert models.params(wide) - models.params(large) == 80 * 2 * 56 * 128 * 8192
    deep = model("DeepSeek-V3")
    plain = models.with_key_heads(deep, 128)
    assert models.attention_kind(plain) == "MHA"
    assert footprint.kv_bytes_per_token(plain) / footprint.kv_bytes_per_token(deep) == pytest.approx(32768 / 576)
    assert models.with_key_heads(large, 8).kv_heads == large.kv_heads
    with pytest.raises(ValueError, match="kv_heads must be at most 64, got 65"):
        models.with_key_heads(large, 65)
